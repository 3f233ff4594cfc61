import { type Child, startChild } from './child.ts';
import { at, parseJson } from './json.ts';
import type { Era } from './messages.ts';

/** A running upstream of the bench. */
export interface Fixture extends AsyncDisposable {
  readonly child: Child;
  /** Its MCP endpoint; a name in front gives a server of its own whose tools carry that name. */
  endpoint(name?: string): URL;
}

/** Waits until a process of the bench has printed the port that it listens on, as one JSON line. */
export function printedPort(child: Child): Promise<number> {
  return child.until('it printed its port', 10_000, () => {
    const found = at(parseJson(child.output()), 'port');
    return typeof found === 'number' ? found : undefined;
  });
}

/** Starts an upstream of one era with `tools` tools, answered in pages of `page`. */
export async function startFixture(folder: string, era: Era, tools: number, page: number): Promise<Fixture> {
  const args = ['--era', era, '--tools', String(tools), '--page', String(page)];
  const file = `${import.meta.dirname}/upstream.ts`;
  const child = startChild(`upstream (${era})`, `${folder}/upstream-${era}-${tools}.log`, process.execPath, [
    file,
    ...args,
  ]);
  const port = await printedPort(child);
  return {
    child,
    endpoint: (name) => new URL(`http://127.0.0.1:${port}${name === undefined ? '' : `/${name}`}/mcp`),
    [Symbol.asyncDispose]: () => child.stop(2_000),
  };
}
