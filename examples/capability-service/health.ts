import type { handleUnaryCall } from '@grpc/grpc-js';
import type { HealthProbeReply } from './messages.ts';

/** Says that the service is well. One that needs a database, say, answers STARTING until it has reached it. */
export const probe: handleUnaryCall<unknown, HealthProbeReply> = (_call, callback) => {
  callback(null, { status: 'STARTED' });
};
