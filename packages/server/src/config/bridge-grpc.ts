import { z } from 'zod';
import type { CallSettings } from '../bridge/grpc-call.ts';
import { LONGEST_TIMER_MS } from '../longest-timer.ts';

/**
 * How capability services are called (specification, "Limits": `service.bridge.grpc.*`), as one place sets it; undefined
 * what it leaves to the next one.
 */
export type BridgeGrpcSettings = { readonly [Key in keyof CallSettings]: CallSettings[Key] | undefined };

/** What the values lie between, both included. */
export const BRIDGE_GRPC_LIMITS = {
  timeoutMs: [1, LONGEST_TIMER_MS],
  maxRetries: [0, 100],
  retryDelayMs: [0, LONGEST_TIMER_MS],
} as const;

const DEFAULTS: CallSettings = { timeoutMs: 5_000, maxRetries: 3, retryDelayMs: 100 };

/** The members of the service-config file's `bridge: grpc:` (decisions 1.3); a member without a value is not set. */
export const bridgeGrpcFile = z.looseObject(
  {
    'timeout-ms': wholeNumber(BRIDGE_GRPC_LIMITS.timeoutMs),
    'max-retries': wholeNumber(BRIDGE_GRPC_LIMITS.maxRetries),
    'retry-delay-ms': wholeNumber(BRIDGE_GRPC_LIMITS.retryDelayMs),
  },
  { error: 'is not a map with timeout-ms, max-retries and retry-delay-ms' },
);

/** What stands under the service-config file's key `bridge`. */
export const bridgeEntry = z.object({ grpc: bridgeGrpcFile.nullish() }, { error: 'is not a map with grpc' });

/** What the file's members are to the service. */
export function bridgeGrpcOf(members: z.output<typeof bridgeGrpcFile>): BridgeGrpcSettings {
  return {
    timeoutMs: members['timeout-ms'] ?? undefined,
    maxRetries: members['max-retries'] ?? undefined,
    retryDelayMs: members['retry-delay-ms'] ?? undefined,
  };
}

/** The settings that count: the environment wins over the file, which wins over the defaults (decisions 1.2). */
export function settledBridgeGrpc(environment: BridgeGrpcSettings, file: BridgeGrpcSettings): CallSettings {
  return {
    timeoutMs: environment.timeoutMs ?? file.timeoutMs ?? DEFAULTS.timeoutMs,
    maxRetries: environment.maxRetries ?? file.maxRetries ?? DEFAULTS.maxRetries,
    retryDelayMs: environment.retryDelayMs ?? file.retryDelayMs ?? DEFAULTS.retryDelayMs,
  };
}

function wholeNumber([min, max]: readonly [number, number]) {
  const error = `is not a whole number from ${min} to ${max}`;
  return z.int({ error }).min(min, { error }).max(max, { error }).nullish();
}
