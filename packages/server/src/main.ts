import { existsSync, writeSync } from 'node:fs';
import { constants } from 'node:os';
import { isatty } from 'node:tty';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { escapeInvisible, printable } from '@sluice/protocol/text';
import { oncePerInterrupt } from '@sluice/protocol/timing';
import { type Service, startService } from './app/app.ts';
import { type Config, loadConfig } from './app/config/config.ts';
import { ProcessSupervisor } from './app/processes.ts';
import { Systemd } from './app/systemd.ts';
import { shortWelcome, welcome } from './app/welcome.ts';
import { ConfigError } from './http/settings.ts';
import { StoreError } from './registry/store/store.ts';
import { createLogger } from './telemetry/log.ts';
import { standardError } from './telemetry/log-destination.ts';
import { LogSink } from './telemetry/log-sink.ts';
import { textFormat } from './telemetry/log-text.ts';

// Accessors in Node.js, which the compiler cannot see through: each use would call a function.
for (const name of ['Buffer', 'performance', 'process'] as const) {
  Object.defineProperty(globalThis, name, { value: globalThis[name], writable: true, configurable: true });
}

/** Runs the service until it is stopped; the exit code indicates how it ended. */
async function main(): Promise<void> {
  const invocation = await loadConfig(process.argv.slice(2), process.env, process.cwd());
  if (invocation.kind === 'print') {
    process.stdout.write(invocation.text);
    return;
  }
  const { config } = invocation;
  const sink = new LogSink(standardError(), config.maxLogBytes);
  process.once('exit', sink.flush);
  const logger = createLogger(config.logFilter, logWriter(config, sink));
  for (const warning of config.warnings) logger.target('service').warn(warning);

  if (config.processes > 1 && !config.sharesPorts) {
    const code = await new ProcessSupervisor(logger.target('service')).run(config.processes);
    await sink.close(LAST_LINES_MS);
    process.exit(code);
  }

  process.on('SIGTERM', exitDuringStart);
  releaseLoadingMemory();
  const service = await startService(config, logger, { droppedLines: sink.dropped });
  if ((config.processNumber ?? 1) === 1) {
    // What it reports is older.
    sink.flush();
    const { uiPath, publicUrl, consoleUrl, pipeline } = config;
    const served = {
      addresses: service.addresses,
      listeners: pipeline.listeners,
      uiPath: uiPath !== undefined && existsSync(uiPath) ? uiPath : undefined,
      publicUrl,
      consoleUrl,
    };
    process.stdout.write(isatty(1) ? `\n${welcome(served)}\n` : shortWelcome(served));
  }
  const systemd = new Systemd(process.env, logger.target('service'));
  stopOnSignal(service, sink, systemd, config.sharesPorts);
  // Not before: a signal that arrives while there is no listener is lost.
  process.off('SIGTERM', exitDuringStart);
  systemd.ready();
  // To the process that supervises this one, if there is one.
  process.send?.('ready');
}

/**
 * Gives back what loading the modules has used: the young generation has grown to 32 MiB for it, and would shrink only when
 * Node.js is idle for long. Before the registry is loaded, which may be large.
 */
function releaseLoadingMemory(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

/** The log is for people on a terminal, and otherwise for programs, unless configured. */
function logWriter({ logFormat }: Pick<Config, 'logFormat'>, sink: LogSink): LogSink['write'] {
  const isTerminal = isatty(2);
  if ((logFormat ?? (isTerminal ? 'text' : 'json')) === 'json') return sink.write;
  const format = textFormat(isTerminal && process.stderr.hasColors());
  return (line, level) => sink.write(format(line), level);
}

/** Exits as SIGTERM ends other processes. The first process of a container, without a handler, would ignore it. */
function exitDuringStart(): void {
  process.exit(128 + constants.signals.SIGTERM);
}

/** Time for the reader of the log at the end. */
const LAST_LINES_MS = 5_000;

/** The first signal stops gracefully, a second one immediately. */
function stopOnSignal(service: Service, log: LogSink, systemd: Systemd, isSupervised: boolean): void {
  let isStopping = false;
  const stop = (): void => {
    if (isStopping) process.exit(1);
    isStopping = true;
    systemd.stopping();
    service
      .stop()
      .then(() => log.close(LAST_LINES_MS))
      .then(() => process.exit(0), die);
  };
  process.on('SIGTERM', stop);
  // A terminal sends Ctrl-C to every process; the supervising one then sends SIGTERM.
  process.on('SIGINT', isSupervised ? () => {} : oncePerInterrupt(stop));
  // The process that supervises this one has gone.
  process.on('disconnect', stop);
}

/** Exits with one line on standard error: operator errors as they are, internal errors with their stack. */
function die(error: unknown): never {
  const expected = error instanceof ConfigError || error instanceof StoreError;
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  writeSync(2, `sluice: ${expected ? printable(error.message) : escapeInvisible(stack)}\n`);
  process.exit(1);
}

main().catch(die);
