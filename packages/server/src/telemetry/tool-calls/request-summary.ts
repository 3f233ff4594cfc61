/** What a STARTED event says of the request: names alone, never a value (specification, "Events", redaction; decisions 6). */
export interface RequestSummary {
  /** Undefined where code is executed: its arguments have no names that may be told. */
  readonly argumentNames: readonly string[] | undefined;
  readonly argumentCount: number;
  readonly headerNames: readonly string[];
  /** Code is executed. */
  readonly code: boolean;
}

/** Arguments that carry credentials: not even their names are told. */
export const AUTH_PREFIX = 'service_auth_';

/** A client may send a million names, and a thousand events are kept. */
const MOST_NAMES = 100;
const LONGEST_NAME = 256;

/** What is told of a tool's request. Of `args` the names count, and of `headers` all that is given are names. */
export function toolSummary(args: object, headers: readonly string[]): RequestSummary {
  const all = Object.keys(args);
  const argumentNames = boundedNames(all, (name) => !name.startsWith(AUTH_PREFIX));
  return { argumentNames, argumentCount: all.length, headerNames: boundedNames(headers, () => true), code: false };
}

/** What is told of code that is to be executed: how many arguments it gets. */
export function codeSummary(argumentCount: number): RequestSummary {
  return { argumentNames: undefined, argumentCount, headerNames: [], code: true };
}

function boundedNames(names: readonly string[], told: (name: string) => boolean): string[] {
  const bounded: string[] = [];
  for (const name of names) {
    if (bounded.length === MOST_NAMES) break;
    if (told(name))
      bounded.push(name.length > LONGEST_NAME ? copied(name.slice(0, LONGEST_NAME)) : name.toWellFormed());
  }
  return bounded;
}

/** A part of a text keeps all of it alive. */
function copied(part: string): string {
  return Buffer.from(part).toString();
}
