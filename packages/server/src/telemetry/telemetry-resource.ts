import {
  detectResources,
  type Resource,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceInstanceIdDetector,
  serviceNameEnvDetector,
} from '@opentelemetry/resources';
import { VERSION } from '../config/version.ts';

/** Who exports: `sluice` of this version, unless OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say otherwise. */
export function telemetryResource(): Resource {
  const detectors = [serviceInstanceIdDetector, resourceAttributesEnvDetector, serviceNameEnvDetector];
  return resourceFromAttributes({ 'service.name': 'sluice', 'service.version': VERSION }).merge(
    detectResources({ detectors }),
  );
}
