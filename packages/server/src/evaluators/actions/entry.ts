/** What the command line has of actions: the real compiler and the real host processes. */

export { ResultSchemaError, ResultSchemas } from '../result-schemas.ts';
export type {
  Action,
  ActionFault,
  ActionLogLevel,
  ActionResponse,
  ActionRun,
  EvaluationContext,
  HistoryMessage,
  HostAnswers,
  ToolEntry,
} from './action-world.ts';
export { ActionCompileError, ActionFailure } from './action-world.ts';
export { ActionCompiler } from './compiler.ts';
export { ActionHosts } from './hosts.ts';
