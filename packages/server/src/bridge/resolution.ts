import type { ServiceEntry } from '../registry/entries.ts';
import type { Services } from '../registry/services.ts';

/**
 * Which capability service carries something out (specification, "Capability-service protocols"; decisions 4.10). The
 * first registered wins; how it was last found to be does not matter.
 */

/** The service of a tool of this type: a tool invoker of that name, else a code-execution engine of that name. */
export function serviceOfTool(services: Services, toolType: string): ServiceEntry | undefined {
  const named = services.named(toolType);
  return (
    named.find(({ serviceType }) => serviceType === 'tool-invoker' || serviceType === 'multi-capability') ??
    named.find(({ serviceType }) => serviceType === 'code-execution-engine')
  );
}

/** The service of a resource of this type. */
export function serviceOfResource(services: Services, type: string): ServiceEntry | undefined {
  return services
    .named(type)
    .find(({ serviceType }) => serviceType === 'resource-provider' || serviceType === 'multi-capability');
}

/** The service that executes code of this language with this engine; upper and lower case are alike. */
export function serviceOfCode(services: Services, engine: string, language: string): ServiceEntry | undefined {
  const wanted = [engine.toLowerCase(), language.toLowerCase()];
  return services.all.find(
    ({ serviceType, serviceSubType = '', languageName = '' }) =>
      serviceType === 'code-execution-engine' &&
      serviceSubType.toLowerCase() === wanted[0] &&
      languageName.toLowerCase() === wanted[1],
  );
}

/** What is said when nothing is registered for a type. */
export function noHost(type: string): string {
  return `There is no host registered for service ${type}`;
}
