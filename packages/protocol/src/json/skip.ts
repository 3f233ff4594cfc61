import { readFileSync } from 'node:fs';

/** Maximum number of bytes that {@link Kernel.skip} reads in one call, and of containers that it closes. */
export const MAX_INPUT = 65_536;

/** Indexes of the registers; see `assembly/skip.ts`. */
export const STATE = 0;
export const DEPTH = 1;
export const MAX_DEPTH = 2;
export const IN_KEY = 3;
export const PROGRESS = 4;
export const RESULT = 5;
export const SIZE = 6;
export const BEYOND_ASCII = 7;

/** Results of a call. */
export const DONE = 1;
export const INVALID = 2;

/**
 * WebAssembly part of the scanner, compiled from `assembly/skip.ts`. Its memory has a meaning only during a call: the caller
 * writes input, open containers and registers before, and reads them after it.
 */
export interface Kernel {
  readonly input: Uint8Array;
  /** The innermost open containers, outermost first: 1 for an object, 0 for an array. */
  readonly open: Uint8Array;
  readonly registers: Int32Array;
  /**
   * Continues a value, or a key, from position `from` of the input up to its end or `to`. Returns the position after it, or
   * that of the first invalid byte.
   */
  skip(from: number, to: number): number;
}

export const KERNEL: Kernel = loadKernel();

function loadKernel(): Kernel {
  const bytes = readFileSync(new URL('skip.wasm', import.meta.url));
  const { exports } = new WebAssembly.Instance<KernelExports>(new WebAssembly.Module(bytes), {});
  const { buffer } = exports.memory;
  return {
    input: new Uint8Array(buffer, exports.INPUT.value, MAX_INPUT),
    open: new Uint8Array(buffer, exports.OPEN.value, 2 * MAX_INPUT),
    registers: new Int32Array(buffer, exports.REGISTERS.value, BEYOND_ASCII + 1),
    skip: exports.skip,
  };
}

/** Addresses are globals. */
interface KernelExports {
  readonly memory: WebAssembly.Memory;
  readonly INPUT: { readonly value: number };
  readonly OPEN: { readonly value: number };
  readonly REGISTERS: { readonly value: number };
  skip(from: number, to: number): number;
}
