import type { Buffer } from 'node:buffer';
import fc from 'fast-check';
import { Arbitraries, type Sources } from './arbitrary.ts';
import type { ApiDocument, Operation } from './document.ts';
import type { Pool } from './pool.ts';
import { requestBodies } from './request-body.ts';
import { targetsOf } from './target.ts';

/** A request to send. */
export interface FuzzRequest {
  readonly method: string;
  /** Path and query of the request line. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
  /** The body is ambiguous, so that the document determines less. */
  readonly ambiguous: boolean;
}

/** Addresses and strings for requests. */
type Inputs = Pick<Sources, 'uris' | 'texts'>;

/** Methods without an operation on some or all paths. */
const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'TRACE', 'PROPFIND', 'QUERY', 'HEAD', 'OPTIONS'];

/** Headers without effect, and origins that are rejected. */
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
 * Valid and invalid requests to every operation. Known values are taken from the pool when a request is generated.
 */
export function requests(document: ApiDocument, pool: Pool, inputs: Inputs): fc.Arbitrary<FuzzRequest> {
  const each = document.operations.map((operation) => ({
    weight: weightOf(operation),
    arbitrary: requestsOf(document, operation, pool, inputs),
  }));
  return fc.oneof(...each);
}

/** More requests for operations with more inputs, and more creations than deletions. */
function weightOf({ body, method, path }: Operation): number {
  if (body) return 6;
  return path.includes('{') && method !== 'DELETE' ? 3 : 1;
}

function requestsOf(
  document: ApiDocument,
  operation: Operation,
  pool: Pool,
  { uris, texts }: Inputs,
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
