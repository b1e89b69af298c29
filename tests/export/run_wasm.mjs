// Calls an exported function: node run_wasm.mjs FILE NAME INPUT_BYTES,... OUTPUT_BYTES,...; inputs and outputs are streams of bytes.
import { readFileSync, writeSync } from 'node:fs';

const [file, name, inputs, outputs] = process.argv.slice(2);
const sizes = text => text.split(',').map(Number);
const { instance } = await WebAssembly.instantiate(readFileSync(file), {});
const { memory, __heap_base, ...functions } = instance.exports;
let top = Number(__heap_base.value);
const take = bytes => { const at = (top + 63) & ~63; top = at + bytes; return at; };
const ins = sizes(inputs).map(take), outs = sizes(outputs).map(take);
const work = take(functions[`${name}_work_bytes`]());
const missing = Math.ceil((top - memory.buffer.byteLength) / 65536);
if (missing > 0) memory.grow(missing);
const given = readFileSync(0);
let at = 0;
sizes(inputs).forEach((n, k) => { new Uint8Array(memory.buffer, ins[k], n).set(given.subarray(at, at + n)); at += n; });
const status = functions[name](...ins, ...outs, work);
writeSync(1, new Uint8Array(Int32Array.of(status).buffer));
sizes(outputs).forEach((n, k) => writeSync(1, new Uint8Array(memory.buffer, outs[k], n)));
