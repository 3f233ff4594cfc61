import type { handleUnaryCall } from '@grpc/grpc-js';
import type { HealthProbeReply } from './messages.ts';

/** Reports that the service is healthy. Return STARTING until dependencies, such as a database, are available. */
export const probe: handleUnaryCall<unknown, HealthProbeReply> = (_call, callback) => {
  callback(null, { status: 'STARTED' });
};
