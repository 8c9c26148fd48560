//! An error of the engine as a gRPC status, with what clients look for beside the message.

use googleapis_tonic_google_rpc::google::rpc;
use prost::Message;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use crate::engine::{Detail, Error};

/// The longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 1_000;

/// Returns the status that carries an error.
///
/// Some clients read the details from the status, others from a trailer of their own: both are
/// there.
pub(crate) fn status(error: &Error) -> Status {
    let code = Code::from(error.code().number());
    let message = cut(error.message());
    let (kind, detail) = match error.detail() {
        Detail::None => return Status::new(code, message),
        Detail::RetryAfter(delay) => {
            let retry_delay = prost_types::Duration::try_from(*delay).ok();
            ("RetryInfo", rpc::RetryInfo { retry_delay }.encode_to_vec())
        }
        Detail::Resource { kind, name } => {
            let info = rpc::ResourceInfo {
                resource_type: (*kind).to_owned(),
                resource_name: cut(name),
                ..rpc::ResourceInfo::default()
            };
            ("ResourceInfo", info.encode_to_vec())
        }
    };
    let mut trailers = MetadataMap::new();
    let trailer = match kind {
        "RetryInfo" => "google.rpc.retryinfo-bin",
        _ => "google.rpc.resourceinfo-bin",
    };
    trailers.insert_bin(trailer, MetadataValue::from_bytes(&detail));
    let status = rpc::Status {
        code: error.code().number(),
        message: message.clone(),
        details: vec![prost_types::Any {
            type_url: format!("type.googleapis.com/google.rpc.{kind}"),
            value: detail,
        }],
    };
    Status::with_details_and_metadata(code, message, status.encode_to_vec().into(), trailers)
}

/// Returns the text as far as it fits into a trailer. Clients refuse larger ones and lose the code
/// with them, and a byte of a message can take three in one.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= MESSAGE_BYTES_MAX {
        return text.to_owned();
    }
    let half = MESSAGE_BYTES_MAX / 2;
    let start = text.floor_char_boundary(half);
    let end = text.ceil_char_boundary(text.len() - half);
    format!("{} … {}", &text[..start], &text[end..])
}
