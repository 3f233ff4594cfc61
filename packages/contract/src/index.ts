/** The management API, shared by the service and its clients: schemas, operations and validation. */
export * from './operations/operation.ts';
export * from './operations/operations.ts';
export * from './schemas/enabled.ts';
export * from './schemas/entries.ts';
export * from './schemas/envelope.ts';
export * from './schemas/evaluators.ts';
export * from './schemas/expose.ts';
export * from './schemas/fields.ts';
export * from './schemas/forwards.ts';
export * from './schemas/inference.ts';
export * from './schemas/json.ts';
export * from './schemas/namespaces.ts';
export * from './schemas/observability.ts';
export * from './schemas/services.ts';
export * from './schemas/tool-calls.ts';
export * from './validate.ts';
