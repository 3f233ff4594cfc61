/**
 * Entry of a host process: loads and runs actions until the service closes the pipe. It is started without access to
 * files, network, processes, threads and environment (`sandbox-process.ts`); the service enforces the deadlines and kills
 * it.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { HostCall, HostCommand, HostMessage } from '../ipc.ts';
import { LoadedAction } from './loaded-action.ts';
import { lockdown } from './lockdown.ts';
import { ParentPipe } from './parent-pipe.ts';
import { createRealmBridge } from './realm-bridge.ts';

/** Pages of ended instances after which young objects are collected: most of those pages are freed with them. */
const MINOR_GC_PAGES = 512;
/** Resident bytes beyond which all objects are collected, which takes about ten times as long. */
const FULL_GC_BYTES = 144 * 1024 * 1024;

const pipe = new ParentPipe<HostCommand, HostMessage>();
const actions = new Map<string, LoadedAction>();
const collectGarbage = exposeGarbageCollector();
const residentBytes = process.memoryUsage.rss;
const { exit } = process;
const bridge = createRealmBridge({
  call: callService,
  log: (level, message) => pipe.send({ kind: 'log', level, message }),
});
let uncollectedPages = 0;
lockdown();

pipe.send({ kind: 'ready' });
for (let command = pipe.receive(); command !== undefined; command = pipe.receive()) {
  if (command.kind === 'load') load(command);
  else if (command.kind === 'run') run(command.action);
}

function load({ action, modules }: HostCommand & { kind: 'load' }): void {
  const glue = pipe.receiveBytes()?.toString() ?? '';
  const bytes = modules.map(() => pipe.receiveBytes() ?? Buffer.alloc(0));
  try {
    const compiled = modules.map((info, index) => ({
      ...info,
      module: new WebAssembly.Module(bytes[index] ?? Buffer.alloc(0)),
    }));
    const loaded = new LoadedAction(bridge, glue, compiled);
    loaded.prepare();
    actions.set(action, loaded);
    pipe.send({ kind: 'loaded' });
  } catch {
    pipe.send({ kind: 'failed', fault: 'trap', message: 'component cannot be loaded' });
  }
}

/** Errors are not inspected: a script injected into the glue could observe the access. */
function run(action: string): void {
  const context = pipe.receiveBytes();
  const loaded = actions.get(action);
  if (!context || !loaded) return exit(1);
  try {
    const message = loaded.run(context.toString());
    if (typeof message !== 'string') return exit(1);
    pipe.sendBytes(Buffer.from(message));
    // After the result, so that this run's client does not wait for it; under load, the next run does.
    const pages = loaded.lastRunPages();
    loaded.prepare();
    collectAfterRun(typeof pages === 'number' ? pages : 0);
  } catch {
    exit(1);
  }
}

function collectAfterRun(pages: number): void {
  uncollectedPages += pages;
  if (uncollectedPages < MINOR_GC_PAGES) return;
  uncollectedPages = 0;
  collectGarbage({ type: 'minor', execution: 'sync' });
  if (residentBytes() > FULL_GC_BYTES) collectGarbage();
}

function callService(call: HostCall): string {
  pipe.send(call);
  const response = pipe.receive();
  const result = response?.kind === 'result' ? pipe.receiveBytes() : undefined;
  // The service has exited, or violates the protocol.
  if (result === undefined) exit(0);
  return String(result);
}

/** Exposes V8's collector for this one access: with a command-line flag, every realm would have it. */
function exposeGarbageCollector(): NodeJS.GCFunction {
  setFlagsFromString('--expose-gc');
  const collect: NodeJS.GCFunction = runInNewContext('gc');
  setFlagsFromString('--no-expose-gc');
  return collect;
}
