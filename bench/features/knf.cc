// knf.cc: a C function around kaldi-native-fbank, so that feature_peers.py can time it without
// Python: its package takes a list of floats and returns one frame per call. That adds half of the
// cost of the features. run.sh compiles it with the package's own sources.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kaldi-native-fbank/csrc/online-feature.h"

// 80 mels and no dither, else its defaults, which are Kaldi's. samples: -32768 to 32767. Returns
// the number of frames; rows has room for them.
extern "C" int32_t knf_fbank80(const float *samples, int32_t count, float *rows)
{
    static const knf::FbankOptions options = [] {
        knf::FbankOptions made;
        made.frame_opts.dither = 0;
        made.mel_opts.num_bins = 80;
        return made;
    }();
    knf::OnlineGenericBaseFeature<knf::FbankComputer> online(options);
    online.AcceptWaveform(16000, samples, count);
    online.InputFinished();
    const int32_t frames = online.NumFramesReady();
    for (int32_t k = 0; k < frames; k++)
        std::memcpy(rows + static_cast<size_t>(k) * 80, online.GetFrame(k), 80 * sizeof(float));
    return frames;
}
