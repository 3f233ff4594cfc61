import type { Buffer } from 'node:buffer';
import fc from 'fast-check';
import { Arbitraries, type Sources } from './arbitrary.ts';
import type { ApiDocument, Operation } from './document.ts';
import type { Pool } from './pool.ts';
import { requestBodies } from './request-body.ts';
import { targetsOf } from './target.ts';

/** A request as it goes out. */
export interface FuzzRequest {
  readonly method: string;
  /** Path and query, as they stand in the request line. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
  /** Its body may be read in more than one way, so that less follows from the document. */
  readonly ambiguous: boolean;
}

/** Addresses and texts that requests may carry. */
type Given = Pick<Sources, 'uris' | 'texts'>;

/** Methods that no operation has, or not every path. */
const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'TRACE', 'PROPFIND', 'QUERY', 'HEAD', 'OPTIONS'];

/** Headers that make no difference, whatever a body is called, and origins that do. */
const HEADERS: readonly Readonly<Record<string, string>>[] = [
  {},
  { 'content-type': 'text/plain' },
  { 'content-type': 'application/json; charset=utf-16' },
  { 'content-type': 'multipart/form-data; boundary=x' },
  { 'content-type': ';;;' },
  { accept: 'text/html', 'x-forwarded-user': 'a'.repeat(2_000) },
  { 'x-http-method-override': 'DELETE', 'if-none-match': '*', range: 'bytes=0-1' },
  { origin: 'https://elsewhere.example' },
  { origin: 'null', 'access-control-request-method': 'PUT' },
];

/**
 * Every kind of request to every operation, well formed and not. What is known of the service is taken from the pool at
 * the moment a request is made.
 */
export function requests(document: ApiDocument, pool: Pool, given: Given): fc.Arbitrary<FuzzRequest> {
  const each = document.operations.map((operation) => ({
    weight: weightOf(operation),
    arbitrary: requestsOf(document, operation, pool, given),
  }));
  return fc.oneof(...each);
}

/** Where there is more to be said in a request, there are more of them; and more is made than deleted. */
function weightOf({ body, method, path }: Operation): number {
  if (body) return 6;
  return path.includes('{') && method !== 'DELETE' ? 3 : 1;
}

function requestsOf(
  document: ApiDocument,
  operation: Operation,
  pool: Pool,
  { uris, texts }: Given,
): fc.Arbitrary<FuzzRequest> {
  const known = (member: string, number: number) => pool.member(operation.collection, member, number);
  const arbitraries = new Arbitraries({ document, known, uris, texts });
  return fc
    .tuple(
      fc.nat(),
      targetsOf(operation, arbitraries, pool),
      requestBodies(operation, arbitraries, pool),
      fc.oneof(
        { weight: 14, arbitrary: fc.constant(operation.method) },
        { weight: 1, arbitrary: fc.constantFrom(...METHODS) },
      ),
      fc.oneof(
        { weight: 8, arbitrary: fc.constant({ 'content-type': 'application/json' }) },
        { weight: 1, arbitrary: fc.constantFrom(...HEADERS) },
      ),
    )
    .map(([item, targetOf, bodyOf, method, headers]) => {
      const body = bodyOf(item);
      return { method, target: targetOf(item), headers, body: body?.bytes, ambiguous: body?.ambiguous ?? false };
    });
}
