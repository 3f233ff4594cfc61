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

/** Compiles AssemblyScript to a WebAssembly module, without a garbage collector. Throws with the compiler's messages. */
export async function compileAssemblyScript(source: string, options: readonly string[]): Promise<Uint8Array> {
  let module: Uint8Array | undefined;
  const { default: compiler }: { default: Compiler } = await import(COMPILER);
  const { error, stderr } = await compiler.main(
    ['source.ts', '--outFile', 'source.wasm', '--runtime', 'stub', ...options],
    {
      readFile: (name) => (name === 'source.ts' ? source : null),
      writeFile: (_name, contents) => {
        if (typeof contents !== 'string') module = contents;
      },
      listFiles: () => [],
    },
  );
  if (error !== null || module === undefined) {
    throw new Error(`the AssemblyScript does not compile: ${stderr.toString()}`, { cause: error });
  }
  return module;
}
