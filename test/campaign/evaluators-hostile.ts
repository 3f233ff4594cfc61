import { setTimeout as delay } from 'node:timers/promises';
import type {
  HostileAction,
  HostileOutcome,
} from '../../packages/server/src/policy/sandbox/fixtures/hostile/hostile-action.ts';
import type { LogLine } from '../fixtures/gateway.ts';
import { modernClient } from '../fixtures/raw-client.ts';
import type { JudgingGateway } from './evaluators-start.ts';

/** Requests under way at a time: more than there are hosts, of which there are eight at most. */
const AT_ONCE = 9;
/** In which the log says what was decided. */
const LOG_MS = 10_000;

/** What hostile actions did in one round. */
export interface HostileRound {
  /** Files that were refused, as they have to be, and requests that were judged. */
  readonly refused: number;
  readonly judged: number;
  /** A line for everything that was not as it must be. */
  readonly wrong: readonly string[];
}

/** A hostile action with its place: each judges requests of one namespace. */
export interface Placed extends Pick<HostileAction, 'name' | 'outcomes'> {
  readonly path: string;
  readonly namespace: string;
}

/** Builds the actions and puts their files where the gateway finds them, each with a namespace of its own. */
export async function place(judging: JudgingGateway, actions: readonly HostileAction[]): Promise<Placed[]> {
  const placed: Placed[] = [];
  for (const [index, { name, outcomes, file }] of actions.entries()) {
    const namespace = `hostile${index}`;
    const { status } = await judging.gateway.api('POST', '/api/v1/namespaces', { name: namespace });
    if (status !== 200 && status !== 201) throw new Error(`namespace ${namespace}: ${status}`);
    placed.push({ name, outcomes, namespace, path: await judging.keep(`${namespace}.wasm`, await file()) });
  }
  return placed;
}

/**
 * Has all of them judge a request each, first with `on_error: block`, then with `continue`: checks which files are
 * refused, and the answer and the log of every run.
 */
export async function hostileRound(judging: JudgingGateway, actions: readonly Placed[]): Promise<HostileRound> {
  const wrong: string[] = [];
  let loaded = actions;
  let judged = 0;
  for (const onError of ['block', 'continue'] as const) {
    const evaluators = loaded.map(({ namespace, path }) => ({
      name: namespace,
      method: 'resources/list',
      namespace,
      path,
      onError,
    }));
    const from = judging.gateway.logs.length;
    const skipped = await judging.replace(evaluators);
    wrong.push(...loaded.flatMap((action) => refusedWrongly(action, skipped.includes(action.namespace), onError)));
    loaded = loaded.filter(({ namespace }) => !skipped.includes(namespace));
    const waiting = [...loaded];
    const worker = async () => {
      for (let action = waiting.shift(); action !== undefined; action = waiting.shift()) {
        wrong.push(...(await judge(judging, action, onError, from)));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    judged += loaded.length;
  }
  return { refused: actions.length - loaded.length, judged, wrong };
}

/** Whether a file is refused is the same each time; with `continue`, only those are left that were not. */
function refusedWrongly({ name, outcomes }: Placed, refused: boolean, onError: Mode): string[] {
  const may = outcomes.some(({ stage }) => stage === (refused ? 'compile' : 'run'));
  if (may && !(refused && onError === 'continue')) return [];
  return [`${name}: ${refused ? 'refused' : 'not refused'} with on_error ${onError}`];
}

type Mode = 'block' | 'continue';

async function judge(judging: JudgingGateway, action: Placed, onError: Mode, from: number): Promise<string[]> {
  const { gateway } = judging;
  const { name, namespace, outcomes } = action;
  const { text } = await modernClient(gateway.url(namespace)).call('resources/list');
  const line = await decision(judging, namespace, from);
  const seen = `${name} with on_error ${onError}: ${line && said(line)}, answered ${text.slice(0, 300)}`;
  if (line === undefined) return [`${seen}: the log has no decision`];
  const wanted = outcomes.filter((outcome) => outcome.stage === 'run').map(expected);
  const fits = wanted.find(({ decision }) => decision === said(line));
  if (fits === undefined) return [`${seen}: wanted ${wanted.map((each) => each.decision).join(' or ')}`];
  const { error, result } = Object(parsed(text));
  if (fits.error === undefined && onError === 'continue') return Object(result).resources ? [] : [seen];
  const refusal = fits.error ?? (line.fault === undefined ? undefined : FAILED);
  if (refusal === undefined) return Object(result).resources ? [] : [seen];
  const { code, message, data } = Object(error);
  const { evaluator, kind } = Object(data);
  const same = code === refusal.code && message === refusal.message && kind === refusal.kind && evaluator === namespace;
  return same ? [] : [seen];
}

interface Refusal {
  readonly code: number;
  readonly message: string;
  readonly kind: string;
}

const FAILED: Refusal = { code: -32603, message: 'evaluator processor execution failed', kind: 'action_failure' };

/** What the log says of an outcome, and what the request is answered whatever `on_error` is. */
function expected(outcome: HostileOutcome): { readonly decision: string; readonly error?: Refusal } {
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
    // Of a request that lists no tools, none can be taken away.
    default:
      return { decision: 'pass' };
  }
}

/** The line in which the log says what an evaluator decided; it may come after the answer. */
async function decision(
  { gateway: { logs } }: JudgingGateway,
  evaluator: string,
  from: number,
): Promise<LogLine | undefined> {
  const over = performance.now() + LOG_MS;
  const find = () =>
    logs.find((line, index) => index >= from && line.evaluator === evaluator && 'decision' in line && 'msg' in line);
  for (let line = find(); ; line = find()) {
    if (line !== undefined || performance.now() > over) return line;
    await delay(20);
  }
}

const said = ({ decision, fault }: LogLine): string => (fault === undefined ? String(decision) : `fault ${fault}`);

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
