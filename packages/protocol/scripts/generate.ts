// Compiles the WebAssembly part of the JSON scanner. Run by `npm run generate`.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Path of the generated file. */
export const KERNEL_FILE = fileURLToPath(new URL('../src/json/skip.wasm', import.meta.url));

const SOURCE_FILE = fileURLToPath(new URL('../assembly/skip.ts', import.meta.url));

/** The used part of the compiler, whose own types declare a global `console`. */
interface Compiler {
  main(
    args: readonly string[],
    files: {
      readFile(name: string): string | null;
      writeFile(name: string, contents: Uint8Array | string): void;
      listFiles(): string[];
    },
  ): Promise<{ readonly error: Error | null; readonly stderr: { toString(): string } }>;
}

const COMPILER = 'assemblyscript/asc';

/** Returns the content of {@link KERNEL_FILE}. */
export async function compileKernel(): Promise<Uint8Array> {
  let module: Uint8Array | undefined;
  const { default: compiler }: { default: Compiler } = await import(COMPILER);
  const { error, stderr } = await compiler.main(
    ['skip.ts', '--outFile', 'skip.wasm', '-O3', '--runtime', 'stub', '--enable', 'simd', '--noAssert'],
    {
      readFile: (name) => (name === 'skip.ts' ? readFileSync(SOURCE_FILE, 'utf8') : null),
      writeFile: (_name, contents) => {
        if (typeof contents !== 'string') module = contents;
      },
      listFiles: () => [],
    },
  );
  if (error !== null || module === undefined) throw new Error(stderr.toString(), { cause: error });
  return module;
}

if (import.meta.main) writeFileSync(KERNEL_FILE, await compileKernel());
