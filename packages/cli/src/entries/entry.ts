/** A tool, resource, prompt or namespace as it was answered. Numbers in it keep their spelling. */
export interface Entry {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly [member: string]: unknown;
}

/** Where an entry is, as a part of a sentence: `in default`; nothing for a namespace itself. */
export function formatPlace({ namespace }: Entry, word: 'in' | 'from'): string {
  return typeof namespace === 'string' ? ` ${word} ${namespace}` : '';
}

/** Members that the service sets and ignores in what it is sent (decisions 2.5). */
const READ_ONLY: readonly string[] = ['forward', 'upstreamName', 'shadowed'];

/** What of an entry can be changed. */
export function writableMembers(entry: Entry): Record<string, unknown> {
  return Object.fromEntries(Object.entries(entry).filter(([member]) => !READ_ONLY.includes(member)));
}
