/**
 * A host process: compiles and runs actions, for as long as the service wants it. It is started without access to files,
 * network, processes, threads and environment (`sandbox-process.ts`); the service keeps its deadlines and kills it.
 */
import { close } from './closed.ts';
import type { FromHost, ToHost } from './messages.ts';
import { Realm } from './realm.ts';
import { Wire } from './wire.ts';

/** Pages of instances that ended, after which young objects are collected: most of those pages go with them. */
const COLLECT_PAGES = 128;
/** Resident bytes, beyond which all objects are: that takes some ten times as long. */
const COLLECT_ALL_BYTES = 144 * 1024 * 1024;

const wire = new Wire<ToHost, FromHost>();
const realms = new Map<string, Realm>();
const collect = globalThis.gc;
const residentBytes = process.memoryUsage.rss;
let uncollected = 0;
close();

wire.send({ kind: 'ready' });
for (let message = wire.message(); message !== undefined; message = wire.message()) {
  if (message.kind === 'load') load(message);
  else if (message.kind === 'run') run(message);
}

function load({ action, modules }: ToHost & { kind: 'load' }): void {
  const glue = wire.bytes();
  const loaded = modules.map((head) => ({ ...head, bytes: wire.bytes() ?? Buffer.alloc(0) }));
  try {
    realms.set(action, new Realm(ask, log, glue?.toString() ?? '', loaded));
    wire.send({ kind: 'loaded' });
  } catch (error) {
    wire.send({ kind: 'failed', fault: 'trap', message: String(error).slice(0, 300) });
  }
}

function run({ action, context }: ToHost & { kind: 'run' }): void {
  const realm = realms.get(action);
  wire.sendBytes(Buffer.from(String(realm?.run(JSON.stringify(context)))));
  // After the answer, so that nobody waits for it.
  uncollected += realm?.pagesLeft() ?? 0;
  if (uncollected < COLLECT_PAGES) return;
  uncollected = 0;
  collect?.({ type: 'minor', execution: 'sync' });
  if (residentBytes() > COLLECT_ALL_BYTES) collect?.();
}

function ask(question: string): string {
  wire.sendBytes(Buffer.from(`{"kind":"question",${question.slice(1)}`));
  const answer = wire.message();
  const text = answer && wire.bytes();
  // The service has gone.
  if (text === undefined) process.exit(0);
  return text.toString();
}

function log(level: string, message: string): void {
  const line: FromHost = {
    kind: 'log',
    level: level === 'warn' || level === 'error' || level === 'info' ? level : 'debug',
    message,
  };
  wire.send(line);
}
