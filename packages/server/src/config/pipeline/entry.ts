// What the command line has of pipeline files: `@sluice/server/pipeline`.
export { ConfigError } from '../config-error.ts';
export { lineOf } from '../problem.ts';
export { effectivePipeline, examinePipeline } from './examine.ts';
