import type { ServiceEntry } from '../../registry/entries.ts';
import type { Services } from '../../registry/snapshot.ts';

/**
 * Service for tools of a type: a tool invoker of that name, else a code-execution engine of that name. The first registered wins,
 * regardless of its health.
 */
export function findToolService(services: Services, toolType: string): ServiceEntry | undefined {
  const named = services.named(toolType);
  return (
    named.find(({ serviceType }) => serviceType === 'tool-invoker' || serviceType === 'multi-capability') ??
    named.find(({ serviceType }) => serviceType === 'code-execution-engine')
  );
}

/** Service for resources of a type. */
export function findResourceService(services: Services, type: string): ServiceEntry | undefined {
  return services
    .named(type)
    .find(({ serviceType }) => serviceType === 'resource-provider' || serviceType === 'multi-capability');
}

/** Service for code of a language with an engine, both case-insensitive. */
export function findCodeService(services: Services, engine: string, language: string): ServiceEntry | undefined {
  const wanted = [engine.toLowerCase(), language.toLowerCase()];
  return services.all.find(
    ({ serviceType, serviceSubType = '', languageName = '' }) =>
      serviceType === 'code-execution-engine' &&
      serviceSubType.toLowerCase() === wanted[0] &&
      languageName.toLowerCase() === wanted[1],
  );
}

/** Message for a type without a service. */
export function serviceNotFoundMessage(type: string): string {
  return `There is no host registered for service ${type}`;
}
