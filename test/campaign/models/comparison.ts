/** Outcome of a step: what the client assembled, or its error. */
export type StepOutcome = { readonly answer: unknown } | { readonly error: string };

/** Members that the clients add to an answer. */
const ADDED: ReadonlySet<string> = new Set([
  'parsed',
  'parsed_arguments',
  'output_parsed',
  'output_text',
  '_request_id',
]);
/** Members that differ between two runs. */
const VARIABLE =
  /^(?:id|created|created_at|completed_at|item_id|call_id|response_id|system_fingerprint|timings|.*_duration|.*_ms)$/;

/** Runs a step. */
export async function outcomeOf(run: () => Promise<unknown>): Promise<StepOutcome> {
  try {
    return { answer: await run() };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const status = 'status' in error ? String(error.status) : '';
    return { error: `${error.constructor.name} ${status}` };
  }
}

/** The outcome without what differs between two runs. */
export function repeatable(outcome: StepOutcome): string {
  return JSON.stringify(without(outcome, (name) => VARIABLE.test(name) || ADDED.has(name)));
}

/** An answer without what clients add, and without members that only one side has as null. */
export function comparable(answer: unknown): unknown {
  return without(answer, (name) => ADDED.has(name));
}

function without(value: unknown, isLeftOut: (name: string) => boolean): unknown {
  if (Array.isArray(value)) return value.map((each) => without(each, isLeftOut));
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value)
    .filter(([name, member]) => !isLeftOut(name) && member !== null && member !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([name, member]) => [name, without(member, isLeftOut)]));
}

/** Paths at which a record differs from what the client assembled; members that only the record has do not count. */
export function recordDifferences(record: unknown, answer: unknown, path = ''): string[] {
  if (typeof answer !== 'object' || answer === null) return Object.is(record, answer) ? [] : [path];
  if (typeof record !== 'object' || record === null) return [path];
  const recorded: ReadonlyMap<string, unknown> = new Map(Object.entries(record));
  return Object.entries(answer).flatMap(([name, value]) =>
    recordDifferences(recorded.get(name), value, `${path}.${name}`),
  );
}
