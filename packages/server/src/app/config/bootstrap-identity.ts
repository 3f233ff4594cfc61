import { basename, resolve } from 'node:path';
import {
  type IdentitySettings,
  MAX_TEXT_FILE,
  identity as schema,
  type ValidationIssue,
  validate,
} from '@sluice/contract';
import { comparableName } from '../../http/header-lines.ts';
import { ContainedFileError, readContainedFile } from '../../http/secrets/contained-file.ts';
import { ConfigError, quote } from '../../http/settings.ts';
import { identityHeaders, identityIssues, identityWarnings, receivedHeaders } from '../../identity/settings.ts';
import { endpointAudiences } from '../../identity/token-settings.ts';
import { errorCode } from '../../registry/store/files.ts';
import type { Environment } from './environment.ts';
import type { LoadedPipeline } from './pipeline/pipeline.ts';
import { formatPath, formatProblem, type KeyPath, type Problem, sortProblems, type YamlFile } from './yaml-document.ts';

/** The settings of `identity`, and warnings about them with their positions. */
interface ParsedIdentity {
  readonly identity: IdentitySettings | undefined;
  readonly identityWarnings: readonly string[];
}

/**
 * Parses the key `identity`, and reads the files that it names; undefined without it. `folder`: what their paths are relative to.
 * Unlike other entries it has no valid part: rejects with {@link ConfigError} that has all problems, headers of forwards that name a
 * header of it included.
 */
export async function parseIdentity(file: YamlFile, folder: string): Promise<ParsedIdentity> {
  if (!('identity' in file.content)) return { identity: undefined, identityWarnings: [] };
  const { entry, problems } = await readFiles(file, folder);
  const result = validate(schema, entry);
  const settings = 'value' in result ? result.value : undefined;
  const issues = 'value' in result ? identityIssues(result.value) : result.issues;
  problems.push(...issues.map((issue) => identityProblem(file, issue)));
  if (settings) problems.push(...forwardProblems(file, identityHeaders(settings)));
  if (problems.length > 0) throw new ConfigError(sortProblems(problems).map(formatProblem).join('; '));
  const warnings = settings ? identityWarnings(settings).map((issue) => identityProblem(file, issue)) : [];
  return { identity: settings, identityWarnings: warnings.map(formatProblem) };
}

/** Members of token issuers that can be the path of a file, and what is expected of them. */
const FILES = {
  jwks_url: 'an http or https URL, or the path of a file with a JSON Web Key Set',
  ca_file: 'the path of a file with certificates (PEM)',
};

/** Returns the entry with the files that issuers name: their names and contents in place of the paths. */
async function readFiles({ content, position }: YamlFile, folder: string) {
  const entry: unknown = structuredClone(content.identity);
  const { tokens }: { tokens?: unknown } = Object(entry);
  const problems: Problem[] = [];
  for (const [index, issuer] of (Array.isArray(tokens) ? tokens : []).entries()) {
    for (const [member, expected] of Object.entries(FILES)) {
      const path: unknown = Object(issuer)[member];
      if (typeof path !== 'string' || (member === 'jwks_url' && /^https?:/i.test(path))) continue;
      const read = await readText(resolve(folder, path));
      const at = ['identity', 'tokens', index, member];
      if ('problem' in read) {
        const text = `${formatPath(at)}: ${quote(resolve(folder, path))} ${read.problem}; expected ${expected}, relative to the folder of this file`;
        problems.push({ at: position(at), text });
      }
      issuer[member] = 'text' in read ? { name: basename(path), text: read.text } : undefined;
    }
  }
  return { entry, problems };
}

const FILE_PROBLEMS: Readonly<Record<string, string>> = {
  'not-a-file': 'is not a regular file',
  'too-large': `has more than ${MAX_TEXT_FILE} bytes`,
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  ERR_ENCODING_INVALID_ENCODED_DATA: 'is not valid UTF-8',
};

async function readText(path: string): Promise<{ readonly text: string } | { readonly problem: string }> {
  try {
    const bytes = await readContainedFile(path, undefined, MAX_TEXT_FILE);
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch (error) {
    const code = error instanceof ContainedFileError ? error.problem : (errorCode(error) ?? 'unknown error');
    return { problem: FILE_PROBLEMS[code] ?? `cannot be read (${code})` };
  }
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

/** Returns what of the environment variables these settings do not work with. */
function environmentProblems(
  settings: IdentitySettings,
  { publicUrl, forwardHeaders }: Pick<Environment, 'publicUrl' | 'forwardHeaders'>,
): string[] {
  const names = receivedHeaders(settings);
  const found = forwardHeaders.filter((name) => names.has(comparableName(name)));
  return [
    ...(settings.tokens.length > 0 && !publicUrl
      ? [
          'SERVICE_PUBLIC_URL: must be set with identity.tokens: tokens name the URL of an endpoint as their audience; set it to the URL at which clients reach the MCP listener, such as https://agents.example.com',
        ]
      : []),
    ...(publicUrl ? endpointAudiences(settings, publicUrl.href) : []).map(
      (audience) =>
        `identity.tokens: the management audience ${quote(audience)} is the URL of an endpoint: whoever gets a token for it could administer; name another one`,
    ),
    ...(found.length > 0
      ? [
          `SERVICE_FORWARD_HEADERS: ${found.join(', ')} must not be forwarded to upstreams: with identity, this service reads it as a credential; remove it from the list`,
        ]
      : []),
  ];
}

/**
 * Returns the filters that rewrite paths before the namespace is taken from them: a request is authenticated for the path that it has
 * on arrival.
 */
function pathProblems({ listeners }: Pick<LoadedPipeline, 'listeners'>): string[] {
  return listeners.flatMap(({ filters }) => {
    const end = filters.findLastIndex(({ settings: { filter } }) => filter === 'service_namespace');
    const found = filters.slice(0, Math.max(end, 0)).find(({ settings: { filter } }) => filter === 'path_rewrite');
    if (!found) return [];
    return `${found.at}: path_rewrite must not precede service_namespace: with identity, requests are authenticated for the path that clients send; move the filter behind it, or remove it`;
  });
}

/** The settings of the service that identity settings have to work with. */
type OtherSettings = Parameters<typeof environmentProblems>[1] & {
  readonly pipeline: Pick<LoadedPipeline, 'listeners'>;
};

/** Returns what of the other settings of the service these do not work with. */
export function settingsProblems(settings: IdentitySettings, others: OtherSettings): string[] {
  return [...environmentProblems(settings, others), ...pathProblems(others.pipeline)];
}

/** Throws {@link ConfigError} if other settings do not work with `identity` of the bootstrap file. */
export function requireOtherSettings(others: OtherSettings, settings: IdentitySettings | undefined): void {
  const [problem] = settings ? settingsProblems(settings, others) : [];
  if (problem !== undefined) throw new ConfigError(problem);
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
