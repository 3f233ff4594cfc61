import { Button, InlineLoading, Tag } from '@carbon/react';
import { type components, unwrap } from '@sluice/contract/client';
import { useMutation } from '@tanstack/react-query';
import { useApi } from '../../api/api.ts';
import { Allowed } from '../../ui/allowed.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { ErrorNotice } from '../../ui/notices.tsx';

type Step = components['schemas']['ForwardTestStep'];

const TAGS = { ok: 'green', warning: 'warm-gray', failed: 'red', skipped: 'gray' } as const;

/** A button that tests the connection to a forward, and the steps of the last test. */
export function ForwardTest({ name }: { readonly name: string }) {
  const { client } = useApi();
  const { data, error, isPending, mutate } = useMutation({
    mutationFn: () => unwrap(client.POST('/api/v1/forwards/test', { body: { name } })),
  });
  return (
    <>
      <Allowed right="change_registry">
        <Button kind="tertiary" size="sm" disabled={isPending} onClick={() => mutate()}>
          Test
        </Button>
      </Allowed>
      {isPending && <InlineLoading description="Testing the connection…" />}
      {error && <ErrorNotice title="The connection could not be tested" error={error} />}
      {data && (
        <ol className="history" aria-label="Steps of the test">
          {data.steps.map((step) => (
            <li key={step.step}>
              <strong>{step.step}</strong>
              <span>
                <Tag type={TAGS[step.status]} size="sm">
                  {step.status}
                </Tag>{' '}
                <InertText text={describe(step)} maxLength={1_000} />
              </span>
            </li>
          ))}
        </ol>
      )}
    </>
  );
}

function describe({ status, duration, message, received = '' }: Step): string {
  const text = message ?? received;
  return status === 'skipped' ? text : `${text} (${Math.round(duration)} ms)`;
}
