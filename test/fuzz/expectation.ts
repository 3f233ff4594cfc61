import type { BodyVerdict } from './body-verdict.ts';
import type { Operation } from './document.ts';
import type { FuzzRequest } from './request.ts';

/** Expected statuses of a response. */
export interface Expectation {
  readonly statuses: ReadonlySet<number>;
  /** Reason why others are not expected. */
  readonly reason: string;
  /** True for paths of the legacy backend, which the document does not describe. */
  readonly undocumented?: boolean;
}

/** Paths of the legacy backend, which does not exist here. */
const LEGACY =
  /^\/api\/(?:v1\/(?:service-catalog|service-template|data-store|capabilities|chat|management\/(?:info|statistics))|v2\/(?:code-execution|tool-calls))/;

/** Operations with the parameter `strict`. */
const STRICT: ReadonlySet<string> = new Set(['replaceEvaluators', 'activateEvaluatorRevision']);

/** Paths of the sign-in, which there is not here. */
const SIGN_IN: ReadonlySet<string> = new Set(['signIn', 'completeSignIn']);

/** Operations whose body has an identity. */
const WITH_IDENTITY: ReadonlySet<string> = new Set(['replaceIdentity', 'applyState']);

/** Operations on a selection of entries: by names or URIs, and by namespace or forward. */
const SELECTIONS: ReadonlySet<string> = new Set(['enableTools', 'enableResources', 'enablePrompts']);

/** Parameters whose values the document describes in words only. */
const IN_WORDS = ['cursor', 'since', 'step', 'by', 'topics', 'era', 'capabilities'];

/** A request head of this length may exceed the limit of a server. */
const LONG_HEAD = 12_000;

/**
 * Expected response to a request by the document. `methods` are those of the path; `operation` is that of the request,
 * undefined if there is none.
 */
export function expectation(
  { method, target, headers }: FuzzRequest,
  methods: ReadonlyMap<string, Operation>,
  operation: Operation | undefined,
  body: BodyVerdict,
): Expectation {
  const tooLong: readonly number[] = target.length > LONG_HEAD ? [431] : [];
  const only = (reason: string, ...statuses: number[]) => ({ statuses: new Set([...statuses, ...tooLong]), reason });
  const [path = ''] = target.split('?', 1);
  const isForeign = headers.origin !== undefined;
  if (!canDecode(path)) {
    // Prefixes of the legacy backend are matched before the path is decoded.
    const others = [...(isForeign ? [403] : []), ...(LEGACY.test(path) ? [503] : [])];
    return { ...only('the path is not percent-encoded UTF-8', 400, 404, ...others), undocumented: LEGACY.test(path) };
  }
  if (isForeign) return only('the origin is not allowed', 403);
  if (method === 'OPTIONS' && LEGACY.test(path)) {
    // Passed on to the legacy backend, unless it is a preflight request.
    return { ...only('the method is OPTIONS', 204, 503, 400), undocumented: true };
  }
  if (method === 'OPTIONS') return only('the method is OPTIONS', 204);
  if (!operation && LEGACY.test(path)) {
    // Dot segments are rejected before.
    return { ...only('there is no legacy backend', 503, 400), undocumented: true };
  }
  if (!operation) {
    const status = methods.size === 0 ? 404 : 405;
    return only(`no operation: ${status} is expected`, status, ...(body.kind === 'too-large' ? [413] : []));
  }
  const query = new URLSearchParams(target.slice(path.length));
  const limit = query.get('limit');
  const accepts = (parameter: string) => operation.parameters.some(({ name }) => name === parameter);
  const isLimit = limit === null || (/^0*[1-9]\d*$/.test(limit) && !(accepts('cursor') && Number(limit) > 1_000));
  if (!isLimit && body.kind !== 'too-large') return only('the limit is not a whole number of the allowed range', 400);
  const hasUnknownValue = operation.parameters.some(({ name, in: where, schema }) => {
    const value = where === 'query' ? query.get(name) : null;
    const { enum: values } = schema;
    return value !== null && Array.isArray(values) && !value.split(',').every((each) => values.includes(each));
  });
  if (hasUnknownValue && body.kind !== 'too-large') return only('a parameter has none of its values', 400);
  const strict = STRICT.has(operation.id) ? query.get('strict') : null;
  if (strict !== null && strict !== 'true' && strict !== 'false' && body.kind !== 'too-large') {
    return only('strict is neither true nor false', 400, 404);
  }
  const documented = (reason: string, ...except: readonly number[]) => {
    const statuses = [...operation.responses.keys()].filter(
      (status) => status < 500 || status === 502 || status === 503,
    );
    return only(reason, ...statuses.filter((status) => ![403, 413, ...except].includes(status)));
  };
  switch (body.kind) {
    case 'invalid':
      return only(
        `the body does not match its schema: ${body.reason}`,
        400,
        // All that is wrong with an identity is said at once.
        ...(WITH_IDENTITY.has(operation.id) ? [422] : []),
      );
    case 'too-large':
      return only('the body is too large', 413);
    case 'unspecified':
      return documented(body.reason);
    case 'valid':
      // The path may name a namespace that does not exist.
      if (operation.path.includes('{namespace}')) return documented('the body matches the document');
      if (accepts('unknown_members')) return documented('the document does not describe unknown members');
      if (SELECTIONS.has(operation.id)) return documented('the document does not describe which selections are valid');
      return documented('path and body match the document', 400);
    case 'none':
      if (SIGN_IN.has(operation.id)) return only('there is no sign-in', 400);
      if (IN_WORDS.some((name) => accepts(name) && query.has(name))) {
        return documented('the document describes a parameter in words only');
      }
      return operation.body?.required
        ? only('there is no body', 400)
        : documented('the path matches the document', 400);
  }
}

/** True if a path is valid in a request line: ASCII with percent-encoded UTF-8. */
function canDecode(path: string): boolean {
  if (!/^[\x21-\x7e]*$/.test(path)) return false;
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}
