// Original file: proto/health.proto

import type { RuntimeStatus as _health_RuntimeStatus, RuntimeStatus__Output as _health_RuntimeStatus__Output } from '../health/RuntimeStatus.ts';

export interface HealthProbeReply {
  'status'?: (_health_RuntimeStatus);
}

export interface HealthProbeReply__Output {
  'status': (_health_RuntimeStatus__Output);
}
