import { SkeletonText } from '@carbon/react';
import { failingReason } from '@sluice/contract';
import { type Client, unwrapPage } from '@sluice/contract/client';
import type { Entries, EntryKind } from '../../api/entries.ts';
import {
  type EvaluatorSet,
  type Forward,
  type Metrics,
  type Service,
  useApiQuery,
  useEvaluatorSet,
  useForwards,
  useMetrics,
  useServices,
} from '../../api/queries.ts';
import { InertText } from '../../ui/inert-text.tsx';
import { ErrorNotice } from '../../ui/notices.tsx';
import { routeTo } from '../../ui/route.ts';

/** Something that does not work, and where to fix it. */
interface Problem {
  readonly key: string;
  readonly title: string;
  readonly reason: string;
  readonly href: string;
}

/** Failures of evaluators matter for as long as the plots show them. */
const RECENT_MS = 3_600_000;
/** Shadowed entries of a kind that are named; their page has all of them. */
const NAMED = 5;

/** What does not work, each with a link to where it can be fixed. */
export function Attention() {
  const forwards = useForwards();
  const services = useServices();
  const evaluators = useEvaluatorSet();
  const metrics = useMetrics();
  const shadowed = [useShadowed('tools'), useShadowed('resources'), useShadowed('prompts')];
  const failed = [forwards, services, evaluators, metrics, ...shadowed].filter(({ data, error }) => error && !data);
  const isLoading = [forwards, services, evaluators, ...shadowed].some(({ data, error }) => !data && !error);
  const problems = [
    ...(forwards.data ?? []).flatMap(forwardProblem),
    ...(services.data ?? []).flatMap(serviceProblem),
    ...(evaluators.data ? evaluatorProblems(evaluators.data, metrics.data) : []),
    ...shadowed.flatMap(({ data }) => data ?? []),
  ];
  const isEmpty = forwards.data?.length === 0 && services.data?.length === 0;
  return (
    <section aria-labelledby="attention">
      <h2 id="attention" className="section-title">
        Needs attention
      </h2>
      {failed.length > 0 && (
        <ErrorNotice
          title="Not everything could be checked"
          error={failed[0]?.error}
          onRetry={() => void Promise.all(failed.map(({ refetch }) => refetch()))}
        />
      )}
      {isLoading && <SkeletonText paragraph lineCount={2} />}
      {!isLoading && failed.length === 0 && problems.length === 0 && (isEmpty ? <FirstStep /> : <AllWell />)}
      {problems.length > 0 && (
        <ul className="problems">
          {problems.map(({ key, title, reason, href }) => (
            <li key={key}>
              <a href={href}>
                <InertText text={title} maxLength={200} />
              </a>
              {reason !== '' && (
                <p>
                  <InertText text={reason} maxLength={300} />
                </p>
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function AllWell() {
  return <p>Nothing: all forwards, services and evaluators work, and no name is shadowed.</p>;
}

function FirstStep() {
  return (
    <p>
      Nothing is registered yet. <a href={routeTo('/forwards', { new: 'true' })}>Add a forward</a> to give agents the
      tools of an MCP server.
    </p>
  );
}

function forwardProblem({ name, available, statusMessage }: Forward): Problem[] {
  if (available && statusMessage === undefined) return [];
  return [
    {
      key: `forward ${name}`,
      title: `Forward ${name} ${available ? 'has warnings' : 'is unavailable'}`,
      reason: statusMessage ?? '',
      href: routeTo('/forwards', { open: name }),
    },
  ];
}

function serviceProblem({ name, serviceType, serviceSubType, languageName, health, address }: Service): Problem[] {
  if (health !== 'unhealthy' && health !== 'down') return [];
  return [
    {
      key: JSON.stringify([name, serviceType, serviceSubType, languageName]),
      title: `Service ${name} is ${health}`,
      reason: `${serviceType} at ${address}`,
      href: routeTo('/services', { open: name }),
    },
  ];
}

/** Evaluators that could not be loaded, those whose last evaluations have all failed, and those that have failed lately. */
function evaluatorProblems({ evaluators, skipped }: EvaluatorSet, metrics: Metrics | undefined): Problem[] {
  return evaluators.flatMap(({ name }) => {
    const problem = { key: `evaluator ${name}`, href: routeTo('/evaluators', { open: name }) };
    if (skipped.includes(name)) {
      const reason = 'Its action could not be loaded, so it evaluates nothing. Correct the action and save it again.';
      return [{ ...problem, title: `Evaluator ${name} is skipped`, reason }];
    }
    const counts = metrics?.evaluators[name];
    const last = counts?.failures.last;
    if (!counts || !last) return [];
    const failing = failingReason(counts);
    if (failing === undefined && Date.now() - Date.parse(last.at) > RECENT_MS) return [];
    const { llm_failure, action_failure, busy, consecutive } = counts.failures;
    const share = `${llm_failure + action_failure + busy} of ${counts.pipeline_duration.count} evaluations failed`;
    const since = failing === undefined ? '' : `, all of the last ${consecutive} (${failing})`;
    const reason = `${share}${since}, the last one at ${new Date(last.at).toLocaleTimeString()}: ${last.message}`;
    return [{ ...problem, title: `Evaluator ${name} fails`, reason }];
  });
}

/** The first shadowed entries of a kind, and a link to all of them if they are more. */
function useShadowed<K extends EntryKind>(kind: K) {
  return useApiQuery([kind, 'shadowed'], async (client, signal): Promise<Problem[]> => {
    const { data, page } = await SHADOWED[kind](client, signal);
    const total = page?.total ?? data.length;
    const named = data.map(({ name, namespace, forward = '' }) => ({
      key: JSON.stringify([kind, namespace, name, forward]),
      title: `${LABELS[kind]} ${name} of forward ${forward} is shadowed`,
      reason: `In namespace ${namespace}, agents get the one that was registered first. Rename one of them, or set a prefix for the forward.`,
      href: routeTo(`/${kind}`, { namespace, q: name }),
    }));
    if (total <= named.length) return named;
    const title = `${total - named.length} more ${kind} are shadowed`;
    return [...named, { key: `${kind} shadowed`, title, reason: '', href: routeTo(`/${kind}`, { state: 'Shadowed' }) }];
  });
}

const LABELS = { tools: 'Tool', resources: 'Resource', prompts: 'Prompt' } as const;

const QUERY = { params: { query: { only: 'shadowed', limit: String(NAMED) } } } as const;
const SHADOWED: {
  readonly [K in EntryKind]: (
    client: Client,
    signal: AbortSignal,
  ) => Promise<{ readonly data: readonly Entries[K][]; readonly page?: { readonly total: number } | undefined }>;
} = {
  tools: (client, signal) => unwrapPage(client.GET('/api/v1/tools', { ...QUERY, signal })),
  resources: (client, signal) => unwrapPage(client.GET('/api/v1/resources', { ...QUERY, signal })),
  prompts: (client, signal) => unwrapPage(client.GET('/api/v1/prompts', { ...QUERY, signal })),
};
