import { randomFillSync } from 'node:crypto';
import { types } from 'node:util';
import type { ActionLogLevel } from '../action.ts';
import type { Question } from './messages.ts';

/**
 * What leads out of the realm that an action's glue runs in. Text, numbers and views of memory pass, and are looked at
 * before anything is done with them; nothing here throws, but for want of stack, and nothing has a prototype that would
 * lead on.
 */
export interface RealmBridge {
  /** The text of UTF-8; undefined where it is none. */
  decode(bytes: unknown): string | undefined;
  /** Writes UTF-8 and returns how many bytes it took. */
  encodeInto(text: unknown, into: unknown): number;
  utf8Length(text: unknown): number;
  /** Asks the service; JSON, or undefined where that is no question. */
  ask(kind: unknown, first?: unknown, second?: unknown): string | undefined;
  log(level: unknown, message: unknown): void;
  randomFill(bytes: unknown): void;
  monotonicNanoseconds(): bigint;
  wallMilliseconds(): number;
}

/** Where the door leads. */
export interface HostBindings {
  ask(question: Question): string;
  log(level: ActionLogLevel, message: string): void;
}

/** Makes the door. What it works with is taken here, before anything of a component comes in. */
export function makeDoor({ ask, log }: HostBindings): RealmBridge {
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const encoder = new TextEncoder();
  const { isUint8Array } = types;
  const { byteLength } = Buffer;
  const { hrtime } = process;
  const door: RealmBridge = {
    decode: (bytes) => quietly(() => (isUint8Array(bytes) ? utf8.decode(bytes) : undefined), undefined),
    encodeInto: (text, into) =>
      quietly(() => (typeof text === 'string' && isUint8Array(into) ? encoder.encodeInto(text, into).written : 0), 0),
    utf8Length: (text) => (typeof text === 'string' ? byteLength(text) : 0),
    ask(kind, first, second) {
      const question = questionOf(kind, first, second);
      return question && ask(question);
    },
    log(level, message) {
      const known = level === 'info' || level === 'warn' || level === 'error' ? level : 'debug';
      if (typeof message === 'string') log(known, message);
    },
    randomFill: (bytes) => quietly(() => isUint8Array(bytes) && void randomFillSync(bytes), undefined),
    monotonicNanoseconds: () => hrtime.bigint(),
    wallMilliseconds: () => Date.now(),
  };
  for (const member of Object.values(door)) Object.setPrototypeOf(member, null);
  return Object.freeze(Object.setPrototypeOf(door, null));
}

function quietly<T>(work: () => T, otherwise: T): T {
  try {
    return work();
  } catch (error) {
    // For want of stack, which says nothing of what was given.
    if (error instanceof RangeError) throw error;
    return otherwise;
  }
}

function questionOf(ask: unknown, first: unknown, second: unknown): Question | undefined {
  if (ask === 'tools' && first === undefined) return { ask };
  if (typeof first !== 'string') return undefined;
  switch (ask) {
    case 'tools':
      return { ask, namespace: first };
    case 'tool':
      return { ask, name: first };
    case 'copy':
      return typeof second === 'string' ? { ask, name: first, namespace: second } : undefined;
    case 'history':
      return { ask, conversation: first };
    case 'verify':
      return { ask, raw: first };
    default:
      return undefined;
  }
}
