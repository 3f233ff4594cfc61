import type { TargetLogger } from '../telemetry/log.ts';
import { cutBytes } from './cut-bytes.ts';

const MAX_KEY_BYTES = 64;
const MAX_VALUE_BYTES = 256;
/** Those of the service itself. */
const RESERVED = /^(?:mcp|service)\./;

/**
 * Sets what an action says of a request (decisions 4.9, "SetMetadata"). Keys that are the service's are refused, keys over
 * 64 and values over 256 bytes dropped; both are told to the log, without the value.
 */
export function setMetadata(
  metadata: Map<string, string>,
  { key, value }: { readonly key: string; readonly value: string },
  log: Pick<TargetLogger, 'warn'>,
): void {
  const problem = metadataProblem(key, value);
  if (problem === undefined) metadata.set(key, value);
  else log.warn('metadata of an action is not set', { key: cutBytes(key, MAX_KEY_BYTES), problem });
}

/** Why metadata of an action is not set; undefined when it is. */
export function metadataProblem(key: string, value: string): string | undefined {
  if (RESERVED.test(key)) return 'keys beginning with mcp. or service. are those of the service';
  if (Buffer.byteLength(key) > MAX_KEY_BYTES) return `the key is longer than ${MAX_KEY_BYTES} bytes`;
  if (Buffer.byteLength(value) > MAX_VALUE_BYTES) return `the value is longer than ${MAX_VALUE_BYTES} bytes`;
  return undefined;
}
