import type { Client } from '@sluice/contract/client';

/** A tool, resource, prompt or namespace as it was answered. Numbers in it keep their spelling. */
export interface Entry {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly [member: string]: unknown;
}

/** Which one is meant, where several share the name (decisions 2.2). */
export interface Selection {
  readonly namespace?: string | undefined;
  readonly uri?: string | undefined;
}

/** What one kind of entry brings to the commands that all kinds have. Bodies are checked before they are sent. */
export interface EntryKind {
  /** For messages: `tool`. */
  readonly kind: 'tool' | 'resource' | 'prompt' | 'namespace';
  readonly get: (client: Client, name: string, selection: Selection) => Promise<Entry>;
  readonly create: (client: Client, body: unknown) => Promise<Entry>;
  readonly update: (client: Client, name: string, selection: Selection, body: unknown) => Promise<Entry>;
  readonly remove: (client: Client, name: string, selection: Selection) => Promise<{ readonly removed: string }>;
}

/** Members that the service sets and ignores in what it is sent (decisions 2.5). */
const READ_ONLY: readonly string[] = ['forward', 'upstreamName', 'shadowed'];

/** What of an entry can be changed. */
export function writable(entry: Entry): Record<string, unknown> {
  return Object.fromEntries(Object.entries(entry).filter(([member]) => !READ_ONLY.includes(member)));
}
