import { randomFillSync } from 'node:crypto';
import { types } from 'node:util';
import type { ActionLogLevel } from '../action.ts';
import type { HostCall } from '../ipc.ts';

/**
 * The only functions that lead from a guest realm to the host realm. They take and return text, numbers and views of
 * memory, and check every argument. They throw only when the stack is exhausted, and have no prototype.
 */
export interface RealmBridge {
  /** Decodes UTF-8; undefined if invalid. */
  decode(bytes: unknown): string | undefined;
  /** Decodes UTF-8, with U+FFFD for invalid bytes. */
  decodeLossy(bytes: unknown): string;
  /** Writes UTF-8 and returns the number of bytes written. */
  encodeInto(text: unknown, into: unknown): number;
  utf8Length(text: unknown): number;
  /** Calls a host function of the service. Returns JSON; undefined for an invalid call. */
  call(name: unknown, first?: unknown, second?: unknown): string | undefined;
  log(level: unknown, message: unknown): void;
  randomFill(bytes: unknown): void;
  monotonicNanoseconds(): bigint;
  wallMilliseconds(): number;
}

/** Host side of the bridge. */
export interface HostBindings {
  call(call: HostCall): string;
  log(level: ActionLogLevel, message: string): void;
}

/** Creates the bridge. Everything it uses is captured here, before anything of a component is read. */
export function createRealmBridge({ call, log }: HostBindings): RealmBridge {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const lossyDecoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const encoder = new TextEncoder();
  const { isUint8Array } = types;
  const { byteLength } = Buffer;
  const { hrtime } = process;
  const bridge: RealmBridge = {
    decode: (bytes) => attempt(() => (isUint8Array(bytes) ? decoder.decode(bytes) : undefined), undefined),
    decodeLossy: (bytes) => attempt(() => (isUint8Array(bytes) ? lossyDecoder.decode(bytes) : ''), ''),
    encodeInto: (text, into) =>
      attempt(() => (typeof text === 'string' && isUint8Array(into) ? encoder.encodeInto(text, into).written : 0), 0),
    utf8Length: (text) => (typeof text === 'string' ? byteLength(text) : 0),
    call(name, first, second) {
      const valid = hostCall(name, first, second);
      return valid && call(valid);
    },
    log(level, message) {
      const knownLevel = level === 'info' || level === 'warn' || level === 'error' ? level : 'debug';
      if (typeof message === 'string') log(knownLevel, message);
    },
    randomFill: (bytes) => attempt(() => isUint8Array(bytes) && void randomFillSync(bytes), undefined),
    monotonicNanoseconds: () => hrtime.bigint(),
    wallMilliseconds: () => Date.now(),
  };
  for (const member of Object.values(bridge)) Object.setPrototypeOf(member, null);
  return Object.freeze(Object.setPrototypeOf(bridge, null));
}

function attempt<T>(work: () => T, fallback: T): T {
  try {
    return work();
  } catch (error) {
    // The stack is exhausted, which reveals nothing about the arguments.
    if (error instanceof RangeError) throw error;
    return fallback;
  }
}

function hostCall(name: unknown, first: unknown, second: unknown): HostCall | undefined {
  const kind = 'call';
  if (name === 'tools' && first === undefined) return { kind, function: name };
  if (typeof first !== 'string') return undefined;
  switch (name) {
    case 'tools':
      return { kind, function: name, namespace: first };
    case 'tool':
      return { kind, function: name, name: first };
    case 'copy':
      return typeof second === 'string' ? { kind, function: name, name: first, namespace: second } : undefined;
    case 'history':
      return { kind, function: name, conversation: first };
    case 'verify':
      return { kind, function: name, raw: first };
    default:
      return undefined;
  }
}
