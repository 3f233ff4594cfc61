import type { BodyVerdict } from './body-verdict.ts';
import type { Operation } from './document.ts';
import type { FuzzRequest } from './request.ts';

/** Which statuses a request may be answered with. */
export interface Expectation {
  readonly statuses: ReadonlySet<number>;
  /** Why not with others. */
  readonly because: string;
  /** True where the answer is the legacy backend's, of which the document says nothing. */
  readonly undocumented?: boolean;
}

/** What begins so is the legacy backend's, of which there is none here (decisions 4.6). */
const LEGACY =
  /^\/api\/(?:v1\/(?:service-catalog|service-template|data-store|capabilities|chat|management\/(?:info|statistics))|v2\/(?:code-execution|tool-calls))/;

/** A head of this length may be too much for a server. */
const LONG_HEAD = 12_000;

/**
 * What the document lets one expect of the answer to a request. `methods` are those that the path has; `operation` is the
 * one that is meant, undefined where there is none.
 */
export function expectation(
  { method, target, headers }: FuzzRequest,
  methods: ReadonlyMap<string, Operation>,
  operation: Operation | undefined,
  body: BodyVerdict,
): Expectation {
  const unclear: readonly number[] = target.length > LONG_HEAD ? [431] : [];
  const only = (because: string, ...statuses: number[]) => ({ statuses: new Set([...statuses, ...unclear]), because });
  const [path = ''] = target.split('?', 1);
  const foreign = headers.origin !== undefined;
  if (!canDecode(path)) return only('the path is no percent-encoded UTF-8', 400, 404, ...(foreign ? [403] : []));
  if (foreign) return only('the origin is foreign', 403);
  if (method === 'OPTIONS') return only('it is OPTIONS', 204);
  if (!operation && LEGACY.test(path)) {
    // Segments of dots are refused before.
    return { ...only('there is no legacy backend', 503, 400), undocumented: true };
  }
  if (!operation) {
    const status = methods.size === 0 ? 404 : 405;
    return only(`no operation: ${status} is expected`, status, ...(body.kind === 'large' ? [413] : []));
  }
  const promised = (because: string, ...but: readonly number[]) => {
    const declared = [...operation.answers.keys()].filter((status) => status < 500 || status === 502 || status === 503);
    return only(because, ...declared.filter((status) => ![403, 413, ...but].includes(status)));
  };
  switch (body.kind) {
    case 'refused':
      return only(`the body breaks its schema: ${body.because}`, 400);
    case 'large':
      return only('the body is too large', 413);
    case 'open':
      return promised(body.because);
    case 'fits':
      // What may be the name of a namespace, which need not be there, is for the service to say.
      if (operation.path.includes('{namespace}')) return promised('the body is as the document says');
      return promised('path and body are as the document says', 400);
    case 'none':
      return operation.body?.required
        ? only('there is no body', 400)
        : promised('the path is as the document says', 400);
  }
}

/** Whether a path is what a request line may carry: ASCII, and what is percent-encoded in it UTF-8. */
function canDecode(path: string): boolean {
  if (!/^[\x21-\x7e]*$/.test(path)) return false;
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}
