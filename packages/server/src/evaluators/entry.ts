/** What the command line has of actions: the real compiler, host processes and result schemas, and the rules of effects. */

export type {
  ActionLogLevel,
  ActionResponse,
  ActionRun,
  EvaluationContext,
  HistoryMessage,
  HostAnswers,
  ToolEntry,
} from './actions/action-world.ts';
export { ActionCompileError, ActionFailure } from './actions/action-world.ts';
export { ActionCompiler } from './actions/compiler.ts';
export { ActionHosts } from './actions/hosts.ts';
export { ResultSchemaError, ResultSchemas } from './result-schemas/result-schemas.ts';
export { withoutEffect } from './without-effect.ts';
