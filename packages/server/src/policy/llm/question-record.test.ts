import { expect, test } from 'vitest';
import { EvaluatorCounters } from '../../telemetry/metrics/service-metrics.ts';
import { LlmCallStats } from './ask.ts';

/** What a record says of a question with these steps, and what its observer has counted. */
function recorded(...steps: ((record: LlmCallStats) => void)[]) {
  const counters = new EvaluatorCounters();
  const record = new LlmCallStats(counters);
  for (const step of steps) step(record);
  const { llm, schema } = counters.snapshot();
  return { correction: record.correction, llm, schema };
}

const call = (record: LlmCallStats) => record.called(true, 1);
const failedCall = (record: LlmCallStats) => record.called(false, 1);
const fits = (record: LlmCallStats) => record.validated(true);
const misfits = (record: LlmCallStats) => record.validated(false);
const corrected = (record: LlmCallStats) => record.retried(true);
const notCorrected = (record: LlmCallStats) => record.retried(false);

test.each([
  ['no answer', [failedCall], undefined],
  ['an answer without schema', [call], undefined],
  ['an answer that fits', [call, fits], undefined],
  ['a question that was not waited for', [call, misfits, call], undefined],
  ['a corrected answer', [call, misfits, call, fits, corrected], { llm_calls: 2, validation: 'corrected' }],
  ['two answers that do not fit', [call, misfits, call, misfits, notCorrected], { llm_calls: 2, validation: 'failed' }],
  ['a correction that failed', [call, misfits, failedCall, notCorrected], { llm_calls: 2, validation: 'failed' }],
])('%s', (_what, steps, correction) => {
  expect(recorded(...steps).correction).toEqual(correction);
});

test('everything is counted as before', () => {
  const empty = (record: LlmCallStats) => record.emptyResult();
  expect(recorded(call, empty, misfits, failedCall, notCorrected)).toMatchObject({
    llm: { calls_success: 1, calls_failure: 1, empty_results: 1, duration: { count: 2 } },
    schema: { validations_pass: 0, validations_fail: 1, retries_success: 0, retries_failure: 1 },
  });
});
