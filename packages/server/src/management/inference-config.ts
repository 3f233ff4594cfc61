import { operations } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import { httpUpstream } from '../config/addresses.ts';
import { InvalidSettingError, quote } from '../config/setting.ts';
import type { InferenceChange, InferenceSettings } from '../inference/settings.ts';
import { RequestError, sendData } from './answer.ts';
import type { ManagementContext } from './context.ts';
import { routeWithBody } from './route.ts';

/** `/api/v1/config/inference`: where the inference listener forwards to, and how much it records (decisions 4.4). */
export function inferenceConfigRoutes(app: FastifyInstance, { inference }: ManagementContext): void {
  const { configure } = operations.inference;

  routeWithBody(app, configure, async ({ body: { upstream, capacity } }, reply) => {
    set(inference, { upstream, capacity });
    return sendData(reply, JSON.stringify({ upstream: inference.upstreamText, capacity: inference.capacity }));
  });
}

function set(inference: InferenceSettings, change: InferenceChange): void {
  try {
    inference.set(change);
  } catch (error) {
    if (!(error instanceof InvalidSettingError)) throw error;
    const message = `${quote(change.upstream ?? '')} ${error.message}; accepted: ${httpUpstream.accepts}`;
    throw new RequestError('BAD_REQUEST', `invalid ${operations.inference.configure.body.kind}: upstream ${message}`, [
      { path: 'upstream', message },
    ]);
  }
}
