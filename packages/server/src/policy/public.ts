/** Parts of the evaluators that `sluice action test` uses (`@sluice/server/actions`). */

export { ResultSchemaError, ResultSchemas } from './llm/result-schema.ts';
export type {
  ActionLogLevel,
  ActionResponse,
  ActionRun,
  EvaluationContext,
  HistoryMessage,
  HostFunctions,
  ToolEntry,
} from './sandbox/action.ts';
export { ActionCompileError, ActionFailure } from './sandbox/action.ts';
export { ActionCompiler } from './sandbox/compiler.ts';
export { SandboxPool } from './sandbox/pool.ts';
export { ignoredReason } from './verdict.ts';
