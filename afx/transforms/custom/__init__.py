"""Custom rules: functions with derivatives and batch rules of their own."""
