"""Native lowering: schedules to native programs, frozen data that the emitter reads."""
