/**
 * The part of the evaluators that the CLI uses to test actions (`@sluice/server/actions`): compiler, host processes,
 * result schemas.
 */

export { ResultSchemaError, ResultSchemas } from './llm/result-schema.ts';
export type {
  ActionLogLevel,
  ActionResponse,
  ActionRun,
  EvaluationContext,
  HistoryMessage,
  HostAnswers,
  ToolEntry,
} from './sandbox/action.ts';
export { ActionCompileError, ActionFailure } from './sandbox/action.ts';
export { ActionCompiler } from './sandbox/compiler.ts';
export { ActionHosts } from './sandbox/pool.ts';
export { withoutEffect } from './verdict.ts';
