import { setTimeout as delay } from 'node:timers/promises';
import type { OpenResponseTimes } from '../mcp/open-responses.ts';
import type { ComponentCompiler } from '../policy/sandbox/action.ts';
import { ActionCompiler } from '../policy/sandbox/compiler.ts';
import { diskFiles, type Files } from '../registry/store/files.ts';
import { announceAddress } from '../registry/store/lock.ts';
import { UnavailableStoreError } from '../registry/store/store.ts';
import type { Logger } from '../telemetry/log.ts';
import { endBlocked } from './blocks.ts';
import { addCalls } from './call-parts.ts';
import type { Config } from './config/config.ts';
import { openCore } from './core.ts';
import { addInference, type Parts } from './inference.ts';
import { type BoundListener, bind, createListeners } from './listeners.ts';
import { openManagement, type ProcessState } from './management.ts';
import { addPolicy } from './policy.ts';
import { addSessions } from './sessions.ts';
import { logProxies, startFields, warnReachable, warnUnboundSecrets, warnWithoutRoles } from './start-log.ts';
import { addTelemetry } from './telemetry.ts';
import { addUpstreams } from './upstreams.ts';
import { reachableUrl } from './welcome.ts';

/** Running service. */
export interface Service {
  /** Bound addresses, `host:port`: `management`, and the pipeline's listeners by name. */
  readonly addresses: Readonly<Record<string, string>>;
  /** Drains for at most `graceMs` (30 s), flushes and stops. */
  stop(graceMs?: number): Promise<void>;
}

/** Optional parts of the service. */
interface ServiceParts {
  readonly droppedLines?: () => number;
  readonly compiler?: ComponentCompiler;
  readonly files?: Files;
  readonly openResponseTimes?: OpenResponseTimes;
}

/** Grace period of management requests after the shutdown grace is used up. */
const MIN_DRAIN_MS = 1_000;

/** Final timeout of a telemetry collector that does not respond. */
const LAST_EXPORT_MS = 5_000;

/** Time before the service is started again after its database failed. */
const RESTART_MS = 250;

/**
 * Starts the service, and again if its database fails meanwhile. Throws the error that prevented the start; nothing is left
 * running then. `droppedLines` returns the number of lost log lines; `compiler` compiles actions, and tests share one between
 * services; `files` is the file system of the registry folder; `openResponseTimes` are shorter times for tests.
 */
export async function startService(config: Config, logger: Logger, parts: ServiceParts = {}): Promise<Service> {
  for (;;) {
    try {
      return await start(config, logger, parts);
    } catch (error) {
      if (!(error instanceof UnavailableStoreError)) throw error;
      logger.target('service').error('database failed during startup; retrying', { error });
    }
    await delay(RESTART_MS);
  }
}

/** Creates the parts of the service, layer on layer: each has the parts of those below it. */
async function start(
  config: Config,
  logger: Logger,
  { droppedLines = () => 0, compiler = new ActionCompiler(), files = diskFiles(), openResponseTimes }: ServiceParts,
): Promise<Service> {
  const state: ProcessState = { startedAt: Date.now(), ready: false, addresses: {} };
  await using open = new AsyncDisposableStack();
  let exportMs = 0;
  const lastExportMs = () => exportMs;
  const core = await openCore({
    config,
    logger,
    files,
    compiler,
    openResponseTimes,
    droppedLines,
    open,
    lastExportMs,
  });
  const withUpstreams = await addUpstreams(await addTelemetry(core));
  const withPolicy = await addPolicy(await addSessions(withUpstreams));
  const parts = await addInference(addCalls(withPolicy));
  endBlocked(parts);
  const listeners = createListeners(parts);
  const management = await openManagement(parts, listeners, state);
  parts.forwards.open();
  const bound = await bind(config, management.server, listeners);
  state.addresses = Object.fromEntries(bound.map(({ name, listener }) => [name, listener.address]));
  await announceStart(parts, state.addresses);
  state.ready = true;
  parts.shared?.start();
  await parts.sharing?.start();
  parts.forwards.start();
  parts.serviceHealth.start();
  const resources = open.move();

  return {
    addresses: state.addresses,
    async stop(graceMs = config.pipeline.shutdownTimeoutMs) {
      state.ready = false;
      const log = logger.target('service');
      log.info('stopping', { grace_seconds: graceMs / 1000 });
      const deadline = performance.now() + graceMs;
      const remainingMs = () => Math.max(deadline - performance.now(), MIN_DRAIN_MS);
      await drain(parts, bound, deadline);
      exportMs = Math.min(remainingMs(), LAST_EXPORT_MS);
      await resources.disposeAsync();
      log.info('stopped');
    },
  };
}

/** Announces where the service can be reached: in the log, to other replicas and to the command line. */
async function announceStart(
  { config, logger, files, open, secrets, replica, replicaId, identity: { settings: identity } }: Parts,
  addresses: Service['addresses'],
): Promise<void> {
  const log = logger.target('service');
  const { persist, proxies, pipeline } = config;
  await replica?.announce(addresses.peer);
  log.info('started', { ...startFields(config), ...(replica && { replica: replicaId }) });
  log.info('listening', addresses);
  if (persist.backend === 'file') {
    open.defer(await announceAddress(persist.path, files, reachableUrl(addresses.management)));
  }
  logProxies(log, proxies);
  warnReachable(log, addresses, { ...pipeline, identity });
  warnWithoutRoles(log, identity);
  await warnUnboundSecrets(log, secrets);
}

/** Ends the requests in flight. `deadline`: `performance.now()` at the end of the grace period. */
async function drain(
  { openStreams, suspendedCalls, calls, engine, forwards, operations }: Parts,
  [management, ...others]: readonly BoundListener[],
  deadline: number,
): Promise<void> {
  const remainingMs = () => Math.max(deadline - performance.now(), 0);
  // These streams would never end by themselves.
  openStreams.endAll();
  suspendedCalls.close();
  let ended: number | undefined;
  const endCalls = (): boolean => {
    ended ??= calls.endAll();
    return ended > 0;
  };
  await Promise.all(others.map(({ listener }) => listener.drain(remainingMs(), endCalls)));
  // Calls whose client has disconnected may still be in evaluation or in flight; they get the rest of the grace period.
  await engine.close(remainingMs());
  await Promise.all([forwards.close(remainingMs()), operations.close(remainingMs())]);
  // Stays open until here so that readiness can be probed; slow clients do not delay the shutdown.
  await management?.listener.drain(Math.max(remainingMs(), MIN_DRAIN_MS), endCalls);
}
