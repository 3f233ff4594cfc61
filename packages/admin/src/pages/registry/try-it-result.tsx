import { Tag } from '@carbon/react';
import { useEffect, useState } from 'react';
import { InertText } from '../../ui/inert-text.tsx';
import { JsonView, TextView } from '../../ui/json-view.tsx';

type Block = Readonly<Record<string, unknown>>;

/** The result of a tool, resource or prompt: each content by its type, then all of it as JSON. */
export function TryItResult({ result }: { readonly result: unknown }) {
  if (!isObject(result)) return null;
  const { content, contents, messages, structuredContent, isError, description } = result;
  const blocks = [content, contents].flatMap((list) => (Array.isArray(list) ? list.filter(isObject) : []));
  return (
    <div className="try-it-result">
      {isError === true && <Tag type="red">The tool reports an error</Tag>}
      {typeof description === 'string' && (
        <p>
          <InertText text={description} />
        </p>
      )}
      {blocks.map((block, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: blocks have no other identity
        <ContentBlock key={index} block={block} />
      ))}
      {Array.isArray(messages) &&
        messages.filter(isObject).map((message, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: messages have no other identity
          <div key={index} className="message">
            <Tag size="sm" type="blue">
              {String(message.role)}
            </Tag>
            {isObject(message.content) && <ContentBlock block={message.content} />}
          </div>
        ))}
      {structuredContent !== undefined && <JsonView value={structuredContent} label="Structured content" />}
      <details>
        <summary>All of it as JSON</summary>
        <JsonView value={result} label="Result as JSON" />
      </details>
    </div>
  );
}

/** One content. HTML is shown as text; nothing is loaded from other hosts. */
function ContentBlock({ block }: { readonly block: Block }) {
  const { type, text, data, blob, mimeType, resource, uri, name } = block;
  if (typeof text === 'string') return <TextView text={text} label="Text" />;
  const bytes = typeof data === 'string' ? data : blob;
  if (typeof bytes === 'string')
    return <Media base64={bytes} mimeType={typeof mimeType === 'string' ? mimeType : ''} />;
  if (isObject(resource)) return <ContentBlock block={resource} />;
  if (type === 'resource_link' || typeof uri === 'string') {
    return (
      <p>
        <Tag size="sm">link</Tag> <InertText text={[name, uri].filter((part) => typeof part === 'string').join(' ')} />
      </p>
    );
  }
  return <JsonView value={block} label="Content" />;
}

/** Images and audio from a blob; other data as a download. */
function Media({ base64, mimeType }: { readonly base64: string; readonly mimeType: string }) {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    let created: string | undefined;
    try {
      const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
      // A document could run scripts of this origin when it is opened.
      const type = /^(?:image\/(?:png|jpeg|gif|webp|avif)|audio\/[\w.+-]+)$/.test(mimeType)
        ? mimeType
        : 'application/octet-stream';
      created = URL.createObjectURL(new Blob([bytes], { type }));
      setUrl(created);
    } catch {
      setUrl(undefined);
    }
    return () => {
      if (created !== undefined) URL.revokeObjectURL(created);
    };
  }, [base64, mimeType]);
  if (url === undefined) return <p>Data that is not Base64.</p>;
  if (/^image\/(?:png|jpeg|gif|webp|avif)$/.test(mimeType))
    return <img src={url} alt={`Content of type ${mimeType}`} />;
  // biome-ignore lint/a11y/useMediaCaption: upstreams send no captions
  if (mimeType.startsWith('audio/')) return <audio controls src={url} />;
  return (
    <a href={url} download="content">
      Download ({mimeType === '' ? 'data' : mimeType})
    </a>
  );
}

function isObject(value: unknown): value is Block {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
