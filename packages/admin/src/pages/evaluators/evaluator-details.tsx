import type { Evaluator } from '../../api/queries.ts';
import { InertText } from '../../ui/inert-text.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { DetailsModal } from '../../ui/modal.tsx';

/** Everything known about an evaluator. */
export function EvaluatorDetails({
  evaluator,
  onClose,
}: {
  readonly evaluator: Evaluator;
  readonly onClose: () => void;
}) {
  const { name, trigger, llm, processor, on_error } = evaluator;
  return (
    <DetailsModal heading={name} label="Evaluator" onClose={onClose}>
      <dl className="facts">
        <dt>Method</dt>
        <dd>
          <InertText text={trigger.method} />
        </dd>
        <dt>Namespace</dt>
        <dd>
          <InertText text={trigger.namespace ?? 'All namespaces'} />
        </dd>
        <dt>Operation</dt>
        <dd>{llm.operation}</dd>
        <dt>Connection</dt>
        <dd>
          <InertText text={llm.connection} />
        </dd>
        <dt>Action</dt>
        <dd>
          <code>
            <InertText text={processor.path} />
          </code>
        </dd>
        <dt>If the model or the action fails</dt>
        <dd>{on_error === 'block' ? 'The request is blocked' : 'The request passes'}</dd>
      </dl>
      <h3 className="section-title">Prompt</h3>
      <pre className="text-content">
        <InertText text={llm.prompt} maxLength={100_000} />
      </pre>
      {llm.result_schema && (
        <>
          <h3 className="section-title">Schema of the result</h3>
          <JsonView value={llm.result_schema} label="Schema of the result" />
        </>
      )}
    </DetailsModal>
  );
}
