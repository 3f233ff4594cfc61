import type { ExportResult } from '@opentelemetry/core';
import {
  detectResources,
  type Resource,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceInstanceIdDetector,
  serviceNameEnvDetector,
} from '@opentelemetry/resources';
import type { TargetLogger } from './log.ts';
import { VERSION } from './version.ts';

/** Who exports: `sluice` of this version, unless OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say otherwise. */
export function telemetryResource(): Resource {
  const detectors = [serviceInstanceIdDetector, resourceAttributesEnvDetector, serviceNameEnvDetector];
  return resourceFromAttributes({ 'service.name': 'sluice', 'service.version': VERSION }).merge(
    detectResources({ detectors }),
  );
}

const FAILED = 1;

/** Tells in the log when exports begin to fail, and when they work again. */
export class ExportReport {
  readonly #log: TargetLogger;
  readonly #failing: string;
  readonly #again: string;
  #fails = false;

  /** `failing` and `again` are what is said. */
  constructor(log: TargetLogger, failing: string, again: string) {
    this.#log = log;
    this.#failing = failing;
    this.#again = again;
  }

  /** One export has ended so. */
  ended({ code, error }: ExportResult): void {
    const fails = code === FAILED;
    if (fails && !this.#fails) this.#log.warn(this.#failing, { reason: reasonOf(error) });
    else if (!fails && this.#fails) this.#log.info(this.#again);
    this.#fails = fails;
  }
}

/** Of an answer its status alone: its words are the collector's, which may repeat what it was sent. */
function reasonOf(error: Error | undefined): string | undefined {
  const code = error && 'code' in error ? error.code : undefined;
  return typeof code === 'number' ? `answered with status ${code}` : error?.message;
}
