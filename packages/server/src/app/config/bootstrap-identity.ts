import { type IdentitySettings, identity as schema, type ValidationIssue, validate } from '@sluice/contract';
import { comparableName } from '../../http/header-lines.ts';
import { ConfigError } from '../../http/settings.ts';
import { identityHeaders, identityIssues, receivedHeaders } from '../../identity/settings.ts';
import type { LoadedPipeline } from './pipeline/pipeline.ts';
import { formatPath, formatProblem, type KeyPath, type Problem, sortProblems, type YamlFile } from './yaml-document.ts';

/**
 * Parses the key `identity`; undefined without it. Unlike other entries it has no valid part: throws {@link ConfigError} with all
 * problems, headers of forwards that name a header of it included.
 */
export function parseIdentity(file: YamlFile): IdentitySettings | undefined {
  if (!('identity' in file.content)) return undefined;
  const result = validate(schema, file.content.identity);
  const settings = 'value' in result ? result.value : undefined;
  const issues = 'value' in result ? identityIssues(result.value) : result.issues;
  const problems = issues.map((issue) => identityProblem(file, issue));
  if (settings) problems.push(...forwardProblems(file, identityHeaders(settings)));
  if (problems.length === 0) return settings;
  throw new ConfigError(sortProblems(problems).map(formatProblem).join('; '));
}

function identityProblem({ position }: YamlFile, { path, message }: ValidationIssue): Problem {
  const members = path === '' ? [] : path.split('.').map((step) => (/^\d+$/.test(step) ? Number(step) : step));
  const at: KeyPath = ['identity', ...members];
  return { at: position(at), text: `${formatPath(at)} ${message}` };
}

/** Problems of the headers that forwards send to their upstreams. */
function forwardProblems({ content, position }: YamlFile, names: ReadonlySet<string>): Problem[] {
  const forwards: readonly unknown[] = Array.isArray(content.forwards) ? content.forwards : [];
  return forwards.flatMap((forward, index) => {
    const headers: unknown = Object(Object(forward).headers);
    // Null removes a header.
    const named = Object.entries(Object(headers)).filter(
      ([name, value]) => value !== null && names.has(comparableName(name)),
    );
    return named.map(([name]): Problem => {
      const at = ['forwards', index, 'headers', name];
      return { at: position(at), text: `${formatPath(at)} names who calls and is never sent; remove the header` };
    });
  });
}

/** Throws {@link ConfigError} if SERVICE_FORWARD_HEADERS (lower case) names a header that says who calls. */
export function requireNoIdentityHeaders(forwarded: readonly string[], settings: IdentitySettings | undefined): void {
  if (!settings) return;
  const names = receivedHeaders(settings);
  const found = forwarded.filter((name) => names.has(comparableName(name)));
  if (found.length === 0) return;
  throw new ConfigError(
    `SERVICE_FORWARD_HEADERS: ${found.join(', ')} must not be forwarded to upstreams: with identity in the bootstrap file, this service reads it as a credential; remove it from the list`,
  );
}

/**
 * Throws {@link ConfigError} if a filter rewrites paths before the namespace is taken from them: a request is authenticated for the
 * path that it has on arrival.
 */
export function requireOriginalPaths(
  { listeners }: Pick<LoadedPipeline, 'listeners'>,
  settings: IdentitySettings | undefined,
): void {
  if (!settings) return;
  for (const { filters } of listeners) {
    const end = filters.findLastIndex(({ settings: { filter } }) => filter === 'service_namespace');
    const found = filters.slice(0, Math.max(end, 0)).find(({ settings: { filter } }) => filter === 'path_rewrite');
    if (!found) continue;
    throw new ConfigError(
      `${found.at}: path_rewrite must not precede service_namespace: with identity, requests are authenticated for the path that clients send; move the filter behind it, or remove it`,
    );
  }
}

/** Returns a warning for each condition and route of the pipeline that is never met: these headers are removed before it. */
export function removedHeaderWarnings(
  { chains }: Pick<LoadedPipeline, 'chains'>,
  settings: IdentitySettings | undefined,
): string[] {
  if (!settings) return [];
  const names = receivedHeaders(settings);
  return chains
    .flatMap(({ filters }) => filters)
    .flatMap(({ settings: filter, at }) => {
      const found = requiredNames(filter).filter((name) => names.has(comparableName(name)));
      if (found.length === 0) return [];
      return `${at}: a condition or route requires ${found.join(', ')} and is never met: identity removes the header from requests`;
    });
}

function requiredNames(filter: LoadedPipeline['chains'][number]['filters'][number]['settings']): string[] {
  const conditions = 'conditions' in filter ? (filter.conditions ?? []) : [];
  const matches = conditions.map((condition) => ('when' in condition ? condition.when : condition.unless));
  const routes = filter.filter === 'router' ? filter.routes : [];
  return [...new Set([...matches, ...routes].flatMap(({ headers = {} }) => Object.keys(headers)))];
}
