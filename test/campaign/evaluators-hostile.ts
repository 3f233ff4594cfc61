import { setTimeout as delay } from 'node:timers/promises';
import type {
  HostileAction,
  HostileOutcome,
} from '../../packages/server/src/policy/sandbox/fixtures/hostile/hostile-action.ts';
import type { LogLine } from '../fixtures/gateway.ts';
import { modernClient } from '../fixtures/raw-client.ts';
import type { EvaluatorGateway } from './evaluators-gateway.ts';

/** Concurrent requests: more than the eight host processes that exist at most. */
const CONCURRENCY = 9;
/** Timeout for the log line of a decision, in milliseconds. */
const LOG_MS = 10_000;

/** Result of one round of hostile actions. */
export interface HostileRound {
  /** Files that were correctly rejected, and requests that were evaluated. */
  readonly rejected: number;
  readonly evaluated: number;
  /** One line per violation. */
  readonly failures: readonly string[];
}

/** A hostile action with its file and namespace: each evaluates the requests of one namespace. */
export interface InstalledAction extends Pick<HostileAction, 'name' | 'outcomes'> {
  readonly path: string;
  readonly namespace: string;
}

/** Builds the actions and writes their files to the gateway's folder; each gets its own namespace. */
export async function installActions(
  target: EvaluatorGateway,
  actions: readonly HostileAction[],
): Promise<InstalledAction[]> {
  const installed: InstalledAction[] = [];
  for (const [index, { name, outcomes, file }] of actions.entries()) {
    const namespace = `hostile${index}`;
    const { status } = await target.gateway.api('POST', '/api/v1/namespaces', { name: namespace });
    if (status !== 200 && status !== 201) throw new Error(`namespace ${namespace}: ${status}`);
    installed.push({ name, outcomes, namespace, path: await target.writeAction(`${namespace}.wasm`, await file()) });
  }
  return installed;
}

/**
 * Evaluates one request with each action, first with `on_error: block`, then with `continue`: checks which files are
 * rejected, and the response and the log line of every run.
 */
export async function hostileRound(
  target: EvaluatorGateway,
  actions: readonly InstalledAction[],
): Promise<HostileRound> {
  const failures: string[] = [];
  let loaded = actions;
  let evaluated = 0;
  for (const onError of ['block', 'continue'] as const) {
    const evaluators = loaded.map(({ namespace, path }) => ({
      name: namespace,
      method: 'resources/list',
      namespace,
      path,
      onError,
    }));
    const from = target.gateway.logs.length;
    const skipped = await target.replace(evaluators);
    failures.push(...loaded.flatMap((action) => loadFailures(action, skipped.includes(action.namespace), onError)));
    loaded = loaded.filter(({ namespace }) => !skipped.includes(namespace));
    const queue = [...loaded];
    const worker = async () => {
      for (let action = queue.shift(); action !== undefined; action = queue.shift()) {
        failures.push(...(await evaluate(target, action, onError, from)));
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, worker));
    evaluated += loaded.length;
  }
  return { rejected: actions.length - loaded.length, evaluated, failures };
}

/** Checks that a file is rejected each time or never; with `continue`, only the accepted ones are left. */
function loadFailures({ name, outcomes }: InstalledAction, rejected: boolean, onError: Mode): string[] {
  const isExpected = outcomes.some(({ stage }) => stage === (rejected ? 'compile' : 'run'));
  if (isExpected && !(rejected && onError === 'continue')) return [];
  return [`${name}: ${rejected ? 'rejected' : 'accepted'} with on_error ${onError}`];
}

type Mode = 'block' | 'continue';

async function evaluate(
  target: EvaluatorGateway,
  action: InstalledAction,
  onError: Mode,
  from: number,
): Promise<string[]> {
  const { gateway } = target;
  const { name, namespace, outcomes } = action;
  const { text } = await modernClient(gateway.url(namespace)).call('resources/list');
  const line = await findDecision(target, namespace, from);
  const observed = `${name} with on_error ${onError}: ${line && describeDecision(line)}, response ${text.slice(0, 300)}`;
  if (line === undefined) return [`${observed}: no decision in the log`];
  const expected = outcomes.filter((outcome) => outcome.stage === 'run').map(expectedOf);
  const match = expected.find(({ decision }) => decision === describeDecision(line));
  if (match === undefined) return [`${observed}: expected ${expected.map((each) => each.decision).join(' or ')}`];
  const { error, result } = Object(parse(text));
  if (match.error === undefined && onError === 'continue') return Object(result).resources ? [] : [observed];
  const rpcError = match.error ?? (line.fault === undefined ? undefined : FAILED);
  if (rpcError === undefined) return Object(result).resources ? [] : [observed];
  const { code, message, data } = Object(error);
  const { evaluator, kind } = Object(data);
  const same =
    code === rpcError.code && message === rpcError.message && kind === rpcError.kind && evaluator === namespace;
  return same ? [] : [observed];
}

interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly kind: string;
}

const FAILED: RpcError = { code: -32603, message: 'evaluator processor execution failed', kind: 'action_failure' };

/** The logged decision of an outcome, and the error of the response whatever `on_error` is. */
function expectedOf(outcome: HostileOutcome): { readonly decision: string; readonly error?: RpcError } {
  if (outcome.stage === 'compile') return { decision: 'none' };
  if ('fault' in outcome) return { decision: `fault ${outcome.fault}` };
  const { response } = outcome;
  switch (response?.kind) {
    case 'block':
      return { decision: 'block', error: { code: -32001, message: response.reason, kind: 'block' } };
    case 'reject_malformed':
      return { decision: 'reject_malformed', error: { code: -32002, message: response.reason, kind: response.kind } };
    case 'warn':
    case 'set_metadata':
      return { decision: response.kind };
    // `filter_tools` has no effect on a request that is not a tool list.
    default:
      return { decision: 'pass' };
  }
}

/** Waits for the log line with an evaluator's decision; it may be written after the response. */
async function findDecision(
  { gateway: { logs } }: EvaluatorGateway,
  evaluator: string,
  from: number,
): Promise<LogLine | undefined> {
  const deadline = performance.now() + LOG_MS;
  const find = () =>
    logs.find((line, index) => index >= from && line.evaluator === evaluator && 'decision' in line && 'msg' in line);
  for (let line = find(); ; line = find()) {
    if (line !== undefined || performance.now() > deadline) return line;
    await delay(20);
  }
}

const describeDecision = ({ decision, fault }: LogLine): string =>
  fault === undefined ? String(decision) : `fault ${fault}`;

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
