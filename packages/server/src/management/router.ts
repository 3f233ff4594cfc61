import type { Operation, RequestBody, Right } from '@sluice/contract';
import { quoteText } from '@sluice/protocol/text';
import findMyWay from 'find-my-way';
import type { z } from 'zod';
import type { ServerRequest } from '../http/server/request.ts';
import type { Caller } from '../identity/identity.ts';
import type { Principal } from '../identity/principal.ts';
import { OperationError } from '../registry/operation-error.ts';
import type { ChangeOrigin } from '../registry/registry.ts';
import { parseBody } from './body.ts';
import type { ApiResponse } from './responses.ts';

/** A request of an operation. */
export interface ApiRequest<Parameter extends string> {
  /** Its method and headers. */
  readonly http: ServerRequest;
  /** Without the query. */
  readonly path: string;
  readonly principal: Principal;
  /** Who makes it, by which credential. */
  readonly caller: Caller;
  /** Address of the client. */
  readonly address: string | undefined;
  /** The decoded path parameter; empty for a path without one. */
  readonly name: string;
  /** Of the changes that it makes. */
  readonly origin: ChangeOrigin;
  /** Whether the principal has a right that a part of the request or response requires, besides that of the operation. */
  may(right: Right): boolean;
  /** Throws OperationError FORBIDDEN once the caller is blocked, or has this right no more: for a change that has waited. */
  requireStill(right: Right): void;
  /** A query parameter, the first one when it is repeated. Unknown parameters are ignored. */
  query(parameter: Parameter): string | undefined;
}

/** Handles a request whose body has been read. Errors that it throws become error responses. */
export type Handler = (request: ApiRequest<string>, body: Buffer) => ApiResponse | Promise<ApiResponse>;

/** The names of an operation's query parameters. */
type Parameters<Of extends Operation> = keyof NonNullable<Of['query']> & string;

/** Methods of routes, in the order of `Allow`. */
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
type Method = (typeof METHODS)[number];

/** A route for a request. */
export interface Route {
  readonly handle: Handler;
  readonly name: string;
  /** Id of the operation, or its path. */
  readonly operation: string;
  readonly right: Right;
  /** Maximum size of its body, if it is not the usual one. */
  readonly maxBytes?: number | undefined;
}

/** Routes of the management API. Paths are case-sensitive; a trailing slash is ignored. HEAD is handled like GET. */
export class Router {
  // A name of 256 characters takes up to 3 KiB in a URL; the size of the head is the limit.
  readonly #router = findMyWay({ ignoreTrailingSlash: true, maxParamLength: 64 * 1024 });

  /** Adds the route of an operation without a body, or whose body the handler parses. */
  add<Of extends Operation>(
    operation: Of,
    handle: (request: ApiRequest<Parameters<Of>>, body: Buffer) => ApiResponse | Promise<ApiResponse>,
  ): void {
    this.#add(operation, handle);
  }

  /**
   * Adds the route of an operation with a body, which is parsed with the operation's schema before anything but the query is
   * checked.
   */
  addWithBody<Of extends Operation, Schema extends z.ZodType>(
    operation: Of & { readonly body: RequestBody & { readonly schema: Schema } },
    handle: (
      request: ApiRequest<Parameters<Of>> & { readonly body: z.output<Schema> },
    ) => ApiResponse | Promise<ApiResponse>,
  ): void {
    const { schema, ...rest } = operation.body;
    this.#add(operation, (request, body) => handle({ ...request, body: parseBody(body, schema, rest) }));
  }

  /** Adds a path that is not an operation of the contract. */
  addPath(
    path: string,
    right: Right,
    handle: (request: ApiRequest<never>) => ApiResponse | Promise<ApiResponse>,
  ): void {
    this.#add({ id: path, method: 'GET', path, right }, handle);
  }

  /** Finds the route of a path, which may be percent-encoded; undefined if there is none. */
  find(method: string, path: string): Route | undefined {
    const known = METHODS.find((each) => each === method);
    const found = known && this.#router.find(known, path);
    if (!found) return undefined;
    // No path has more than one parameter.
    const [name = ''] = Object.values(found.params);
    return { ...found.store, name };
  }

  /** Returns the methods of the routes of a path. */
  methods(path: string): Method[] {
    return METHODS.filter((method) => this.#router.find(method, path));
  }

  /** Prints the paths as a tree, with the methods of each. */
  print(): string {
    return this.#router.prettyPrint();
  }

  #add(operation: Pick<Operation, 'id' | 'method' | 'path' | 'right' | 'query' | 'body'>, handleValid: Handler): void {
    const { id, method, path, right, query = {}, body } = operation;
    const enumerated = Object.entries(query).flatMap(([name, { values }]) => (values ? [{ name, values }] : []));
    const handle: Handler = (request, body) => {
      for (const { name, values } of enumerated) checkValue(name, values, request.query(name));
      return handleValid(request, body);
    };
    const methods: Method[] = method === 'GET' ? ['GET', 'HEAD'] : [method];
    const store = { handle, operation: id, right, maxBytes: body?.maxBytes };
    this.#router.on(methods, path.replaceAll(/\{(\w+)\}/g, ':$1'), () => undefined, store);
  }
}

/** OperationError BAD_REQUEST for a value that a parameter does not accept. Ignored, it would select too much. */
function checkValue(name: string, values: readonly string[], value: string | undefined): void {
  if (value === undefined) return;
  const given = values.some((each) => each.includes(',')) ? value.split(',') : [value];
  if (given.every((each) => values.includes(each))) return;
  const single = values.filter((each) => !each.includes(','));
  const expected = single.length === 1 ? single[0] : `one of ${single.join(', ')}`;
  throw new OperationError('BAD_REQUEST', `invalid ${name} ${quoteText(value, 100)}: expected ${expected}`);
}

/** Parses `?limit=`; undefined without one. OperationError BAD_REQUEST unless it is a whole number from 1. */
export function parseLimit(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[0-9]+$/.test(text) && Number(text) > 0) return Number(text);
  throw new OperationError('BAD_REQUEST', `invalid limit ${quoteText(text, 100)}: expected a whole number from 1`);
}
