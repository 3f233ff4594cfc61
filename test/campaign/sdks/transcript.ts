/** What a client has reported, by step: the result, or the error. */
export type Transcript = ReadonlyMap<string, unknown>;

/** A step with different outcomes. `undefined`: the step was not reached. */
export interface StepDifference {
  readonly step: string;
  readonly direct: unknown;
  readonly through: unknown;
}

/** Members that may differ through Sluice, anywhere in a result: ids, paging, caching and the identity of the server. */
const FREE = new Set(['progressToken', 'ttlMs', 'cacheScope', 'nextCursor', 'io.modelcontextprotocol/serverInfo']);
/** Members of results in the modern era that a result of a legacy server does not have. */
const FREE_BETWEEN_ERAS = new Set(['resultType']);
/** Members that may differ in the outcome of `initialize`. */
const FREE_AT_START = new Set(['serverInfo', 'capabilities', 'instructions']);

/** Parses the lines that a client prints. */
export function parseTranscript(output: string): Transcript {
  const transcript = new Map<string, unknown>();
  for (const line of output.split('\n')) {
    if (line === '') continue;
    try {
      const { step, ...outcome } = JSON.parse(line);
      transcript.set(String(step), outcome);
    } catch {
      transcript.set('output', line);
    }
  }
  return transcript;
}

/** Compares what a client has reported directly and through Sluice, without what may differ. */
export function compareTranscripts(direct: Transcript, through: Transcript): readonly StepDifference[] {
  // Everything else follows from it.
  const discovery = through.get('discovery');
  if (discovery !== undefined) return [{ step: 'discovery', direct: undefined, through: discovery }];
  const steps = new Set([...direct.keys(), ...through.keys()]);
  const sameEra = version(direct) === version(through);
  return [...steps].flatMap((step) => {
    const free = new Set([
      ...FREE,
      ...(sameEra ? [] : FREE_BETWEEN_ERAS),
      ...(step === 'initialize' ? FREE_AT_START : []),
    ]);
    const [one, other] = [normalize(direct.get(step), free), normalize(through.get(step), free)];
    return JSON.stringify(one) === JSON.stringify(other) ? [] : [{ step, direct: one, through: other }];
  });
}

function version(transcript: Transcript): unknown {
  return Object(Object(transcript.get('initialize')).result).protocolVersion;
}

/** The value with sorted members, without the free ones and without `_meta` that is empty then. */
function normalize(value: unknown, free: ReadonlySet<string>): unknown {
  if (Array.isArray(value)) return value.map((item) => normalize(item, free));
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value)
    .filter(([name]) => !free.has(name))
    .map(([name, member]) => [name, normalize(member, free)] as const)
    .filter(([name, member]) => name !== '_meta' || (member !== null && JSON.stringify(member) !== '{}'));
  return Object.fromEntries(members.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}
