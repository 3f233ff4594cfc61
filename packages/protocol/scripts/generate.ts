// Compiles the WebAssembly part of the JSON scanner. Run by `npm run generate`.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { compileAssemblyScript } from './assemblyscript.ts';

/** Path of the generated file. */
export const KERNEL_FILE = fileURLToPath(new URL('../src/json/skip.wasm', import.meta.url));

const SOURCE_FILE = fileURLToPath(new URL('../assembly/skip.ts', import.meta.url));

/** Returns the content of {@link KERNEL_FILE}. */
export function compileKernel(): Promise<Uint8Array> {
  return compileAssemblyScript(readFileSync(SOURCE_FILE, 'utf8'), ['-O3', '--enable', 'simd', '--noAssert']);
}

if (import.meta.main) writeFileSync(KERNEL_FILE, await compileKernel());
