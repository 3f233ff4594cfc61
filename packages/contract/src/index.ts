/** The words that the service and its clients share: what the management API takes and answers. */
export * from './aliases.ts';
export * from './check.ts';
export * from './envelope.ts';
export * from './forward.ts';
export * from './json.ts';
export * from './labels.ts';
export * from './metrics.ts';
export * from './names.ts';
export * from './namespace.ts';
export * from './operations/operation.ts';
export * from './operations/operations.ts';
export * from './prompt.ts';
export * from './removed.ts';
export * from './resource.ts';
export * from './service-entry.ts';
export * from './statistics.ts';
export * from './tool.ts';
