/** Where code is to be executed, as a tool's uri names it. */
export interface CodeTarget {
  readonly engine: string;
  readonly language: string;
}

const SCHEME = /^code-execution-engine:\/\//i;
const WHOLE = /^code-execution-engine:\/\/([^/]+)\/([^/]+)\/?$/i;

/** True for the uri of a tool that has code executed, also of one that names no engine or language (decisions 4.7). */
export function isCodeUri(uri: string): boolean {
  return SCHEME.test(uri);
}

/** What such a uri names; undefined where it does not name both. */
export function codeTarget(uri: string): CodeTarget | undefined {
  const [, engine, language] = WHOLE.exec(uri) ?? [];
  return engine === undefined || language === undefined ? undefined : { engine, language };
}

/** The normal form: `code-execution-engine://{engineType}/{language}` (specification, "Request-building rules" 4). */
export function codeUri({ engine, language }: CodeTarget): string {
  return `code-execution-engine://${engine}/${language}`.toWellFormed();
}
