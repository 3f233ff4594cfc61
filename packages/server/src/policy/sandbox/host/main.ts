/**
 * A host process: compiles and runs actions, for as long as the service wants it. It is started without access to files,
 * network, processes, threads and environment (`sandbox-process.ts`); the service keeps its deadlines and kills it.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { LoadedAction } from './loaded-action.ts';
import { close } from './lockdown.ts';
import type { FromHost, Question, ToHost } from './messages.ts';
import { makeDoor } from './realm-bridge.ts';
import { Wire } from './wire.ts';

/**
 * V8's collector, which is there for as long as it takes to get hold of it: with the flag set from outside, every realm
 * would have it.
 */
export function takeCollector(): NodeJS.GCFunction {
  setFlagsFromString('--expose-gc');
  const collect: NodeJS.GCFunction = runInNewContext('gc');
  setFlagsFromString('--no-expose-gc');
  return collect;
}

/** Pages of instances that ended, after which young objects are collected: most of those pages go with them. */
const COLLECT_PAGES = 512;
/** Resident bytes, beyond which all objects are: that takes some ten times as long. */
const COLLECT_ALL_BYTES = 144 * 1024 * 1024;

const wire = new Wire<ToHost, FromHost>();
const actions = new Map<string, LoadedAction>();
const collect = takeCollector();
const residentBytes = process.memoryUsage.rss;
const { exit } = process;
const door = makeDoor({ ask, log: (level, message) => wire.send({ kind: 'log', level, message }) });
let uncollected = 0;
close();

wire.send({ kind: 'ready' });
for (let message = wire.message(); message !== undefined; message = wire.message()) {
  if (message.kind === 'load') load(message);
  else if (message.kind === 'run') run(message.action);
}

function load({ action, modules }: ToHost & { kind: 'load' }): void {
  const glue = wire.bytes()?.toString() ?? '';
  const bytes = modules.map(() => wire.bytes() ?? Buffer.alloc(0));
  try {
    const held = modules.map((head, index) => ({
      ...head,
      module: new WebAssembly.Module(bytes[index] ?? Buffer.alloc(0)),
    }));
    const loaded = new LoadedAction(door, glue, held);
    loaded.prepare();
    actions.set(action, loaded);
    wire.send({ kind: 'loaded' });
  } catch {
    wire.send({ kind: 'failed', fault: 'trap', message: 'it cannot be loaded' });
  }
}

/** What a script in the glue might throw is not looked at: that would let it see who looks. */
function run(action: string): void {
  const context = wire.bytes();
  const loaded = actions.get(action);
  if (!context || !loaded) return exit(1);
  try {
    const said = loaded.run(context.toString());
    if (typeof said !== 'string') return exit(1);
    wire.sendBytes(Buffer.from(said));
    // After the answer, so that this run's caller need not wait for it; under load, the next job does.
    const left = loaded.pagesLeft();
    loaded.prepare();
    collectAfter(typeof left === 'number' ? left : 0);
  } catch {
    exit(1);
  }
}

function collectAfter(pages: number): void {
  uncollected += pages;
  if (uncollected < COLLECT_PAGES) return;
  uncollected = 0;
  collect({ type: 'minor', execution: 'sync' });
  if (residentBytes() > COLLECT_ALL_BYTES) collect();
}

function ask(question: Question): string {
  wire.send({ kind: 'question', ...question });
  const answer = wire.message();
  const text = answer?.kind === 'answer' ? wire.bytes() : undefined;
  // The service has gone, or means something else.
  if (text === undefined) exit(0);
  return String(text);
}
