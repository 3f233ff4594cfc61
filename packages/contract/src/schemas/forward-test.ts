import { isJsonObject } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import { forwardInput } from './forwards.ts';

const { name, address, headers, proxy } = forwardInput.shape;

/** Body of `POST /api/v1/forwards/test`: a registered forward, or the members of one that is not registered. */
export const forwardTestInput = z
  .object({
    name: name.optional().describe('Name of a registered forward.'),
    address: address.optional().describe('HTTP or HTTPS URL of an upstream that is not registered.'),
    headers: headers.describe('Headers of all requests to `address`, as those of a forward.'),
    proxy: proxy.describe('URL of the HTTP proxy for requests to `address`, or `none`.'),
  })
  .refine((body) => (body.name === undefined) !== (body.address === undefined), {
    path: ['address'],
    error: ({ input }) =>
      isJsonObject(input) && input.name !== undefined ? 'cannot be combined with name' : 'or name is required',
  })
  .refine((body) => body.name === undefined || (body.headers === undefined && body.proxy === undefined), {
    path: ['name'],
    error: 'cannot be combined with headers or proxy: those of the forward are used',
  })
  .meta({ id: 'ForwardTestInput' });

/** Steps of a test, in order. */
export const FORWARD_TEST_STEPS = [
  'resolve',
  'proxy',
  'connect',
  'tls',
  'http',
  'era',
  'session',
  'lists',
  'ping',
] as const;

/** A step of a test. Texts contain no secrets, header values or results of tools. */
export const forwardTestStep = z
  .object({
    step: z.enum(FORWARD_TEST_STEPS),
    status: z.enum(['ok', 'warning', 'failed', 'skipped']),
    duration: z.number().describe('Milliseconds.'),
    sent: z.string().optional().describe('What was sent, at most 512 bytes.'),
    received: z.string().optional().describe('What was received, at most 512 bytes.'),
    message: z
      .string()
      .optional()
      .describe('What was found. Of a failed step the same text as `statusMessage` of a forward, with the remedy.'),
    remedy: z.string().optional().describe('What to do about it.'),
  })
  .meta({ id: 'ForwardTestStep' });

/** Response of `POST /api/v1/forwards/test`. */
export const forwardTest = z
  .object({
    address: z.string().describe('Address of the upstream, without its query.'),
    ok: z.boolean().describe('Whether no step failed.'),
    steps: z.array(forwardTestStep).describe('All steps, in order. Those after a failed one are skipped.'),
  })
  .meta({ id: 'ForwardTest' });

export type ForwardTestInput = z.infer<typeof forwardTestInput>;
export type ForwardTestStep = z.infer<typeof forwardTestStep>;
export type ForwardTest = z.infer<typeof forwardTest>;
