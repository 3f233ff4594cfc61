import type { StepDifference } from './transcript.ts';

/** A difference that Sluice makes on purpose. */
export interface KnownDifference {
  readonly step: string;
  /** The outcomes as JSON with sorted members; `*` matches any text. */
  readonly direct: string;
  readonly through: string;
  /** Section of the MCP specification that allows it. */
  readonly section: string;
  readonly reason: string;
}

/** Differences between a direct connection and one through Sluice. At most ten. */
export const KNOWN_DIFFERENCES: readonly KnownDifference[] = [
  {
    step: 'initialize',
    direct: '{"result":{"protocolVersion":"2025-*"}}',
    through: '{"result":{"protocolVersion":"2026-07-28"}}',
    section: '2026-07-28, Basic, Versioning',
    reason:
      'a client of both eras uses the newest one that Sluice supports; Sluice translates for a server of the other',
  },
  {
    step: 'tools/list',
    direct: '{"result":[*"execution":{"taskSupport":"*"}*]}',
    through: '{"result":[*]}',
    section: '2026-07-28, Tools; 2025-11-25, Tasks',
    reason:
      '`execution` of a tool belongs to the core tasks of 2025-11-25, which clients of the modern era do not know',
  },
  {
    step: 'unknown tool',
    direct: '*',
    through: '{"error":*tool not found: missing*}',
    section: 'Tools, Error Handling',
    reason: 'an unknown tool has no upstream, so Sluice returns the error of the protocol, -32602, itself',
  },
  {
    step: 'canceled calls',
    direct: '*"0*',
    through: '*"1*',
    section: 'Basic, Cancellation',
    reason:
      'a server without sessions cannot find the call that a notification cancels; Sluice also ends the connection',
  },
  {
    step: 'resources/read of an unknown resource',
    direct: '{"error":{"code":-32002*',
    through: '{"error":{"code":-32602*',
    section: '2026-07-28, Resources, Error Handling',
    reason: 'the modern era has no error -32002: clients of it get -32602 from a server of the other era',
  },
  {
    step: 'echo after a restart',
    direct: '{"error":*}',
    through: '{"result":{*again*}}',
    section: '2025-11-25, Basic, Transports, Session Management',
    reason:
      'the restart has ended the session of the client; Sluice opens a new one with the server, and the client keeps its own',
  },
  {
    step: 'close',
    direct: '{"error":*}',
    through: '{"result":null}',
    section: '2025-11-25, Basic, Transports, Session Management',
    reason: 'the client ends a session that the server has lost, or, through Sluice, one that exists',
  },
];

/** The known difference that this one is; `undefined` if it is none. */
export function knownDifference({ step, direct, through }: StepDifference): KnownDifference | undefined {
  return KNOWN_DIFFERENCES.find(
    (known) => known.step === step && matches(known.direct, direct) && matches(known.through, through),
  );
}

function matches(pattern: string, outcome: unknown): boolean {
  const parts = pattern.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's').test(JSON.stringify(outcome) ?? '');
}
