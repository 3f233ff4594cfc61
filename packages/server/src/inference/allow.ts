import type { IncomingHttpHeaders } from 'node:http';
import { compileGlob } from '@sluice/protocol/glob';
import { ellipsize } from '@sluice/protocol/text';
import type { Rejection } from '../http/host-rule.ts';
import { commaList, InvalidSettingError, quote, textSchema } from '../http/settings.ts';

/** A request that is passed on: a method and the segments of a path, each of which may contain `*`. */
interface AllowedRequest {
  readonly method: string;
  readonly segments: readonly string[];
  /** Whether any number of segments, but at least one, may follow. */
  readonly hasMore: boolean;
}

/** Requests that are passed on; undefined: all. */
export type InferenceAllow = readonly AllowedRequest[] | undefined;

/** Requests for completions, and those with which clients prepare them. */
const COMPLETIONS: readonly string[] = [
  'POST /v1/chat/completions',
  'POST /v1/completions',
  'POST /v1/responses',
  'POST /v1/embeddings',
  'GET /v1/models',
  // Names of models have slashes.
  'GET /v1/models/**',
  'POST /api/chat',
  'POST /api/generate',
  'POST /api/embed',
  'POST /api/embeddings',
  'GET /api/tags',
  'POST /api/show',
  'GET /api/version',
  'GET /',
  'HEAD /',
];

/** SERVICE_INFERENCE_ALLOW: `*`, or a comma-separated list of `completions` and `METHOD /path`. */
export const inferenceAllow = textSchema(
  '* or a comma-separated list of "completions" and requests such as "GET /v1/models/*"',
  (text): InferenceAllow => {
    if (text.trim() === '*') return undefined;
    const items = commaList(text);
    if (items.length === 0) throw new InvalidSettingError('contains no request');
    return items.flatMap((item) => (item === 'completions' ? COMPLETIONS : item)).map(parseItem);
  },
);

function parseItem(item: string): AllowedRequest {
  const [, method, path] = /^([A-Z]+) +(\/\S*)$/.exec(item) ?? [];
  if (method === undefined || path === undefined) {
    throw new InvalidSettingError(`has ${quote(item)}, which is not a method in capital letters and a path`);
  }
  if (isAmbiguous(path) || path.includes('?')) {
    throw new InvalidSettingError(`has ${quote(item)}, whose path no request may have`);
  }
  const segments = path.split('/');
  const hasMore = segments.at(-1) === '**';
  return { method, segments: hasMore ? segments.slice(0, -1) : segments, hasMore };
}

/** Offer to continue with HTTP/2, which Java's client and curl make by default; it is ignored (RFC 9110 7.8). */
const OFFER = /^\s*h2c?(?:\s*,\s*h2c?)*\s*$/i;

/** Maximum length of a path in a message. */
const MAX_PATH_LENGTH = 200;

/**
 * Creates the restriction of the inference listener, which returns why a request is rejected. Paths that the model server might
 * read as another path match nothing.
 */
export function createInferenceRestriction(allow: readonly AllowedRequest[]) {
  const matchers = allow.map(createMatcher);
  return (method: string, target: string, { upgrade }: IncomingHttpHeaders): Rejection | undefined => {
    const [path = ''] = target.split('?', 1);
    const segments = path.split('/');
    const isUpgrade = upgrade !== undefined && !OFFER.test(upgrade);
    if (!isUpgrade && !isAmbiguous(path) && matchers.some((matches) => matches(method, segments))) return undefined;
    const what = isUpgrade ? 'Upgrade' : `${method} ${ellipsize(path, MAX_PATH_LENGTH)}`;
    return { status: 403, reason: `${what} is not allowed; SERVICE_INFERENCE_ALLOW lists the allowed requests` };
  };
}

/** Path that servers read in different ways: encoded, with empty or dot segments, with backslashes, or no path at all. */
function isAmbiguous(path: string): boolean {
  if (!path.startsWith('/') || /[%\\]|\/\//.test(path)) return true;
  // Some servers remove path parameters before they resolve dot segments.
  return path.split('/').some((segment) => /^\.{1,2}(?:;|$)/.test(segment));
}

function createMatcher(allowed: AllowedRequest): (method: string, segments: readonly string[]) => boolean {
  const globs = allowed.segments.map(compileGlob);
  return (method, segments) =>
    allowed.method === method &&
    (allowed.hasMore ? segments.length > globs.length : segments.length === globs.length) &&
    globs.every((glob, at) => glob.matches(segments[at] ?? ''));
}
